//! The code of the page "Losses with a memory" in one plugin: a loss with learnable centres, a memory and a teacher,
//! and a weight scheme that weighs every batch.
//!
//! The loss is the mean, weighted by `w_i`, of
//! `-log softmax_c(s ⟨x_i, c⟩)` at `c = y_i`, plus `1 - ⟨x_i, t_i⟩` with the teacher's embedding `t_i`, plus
//! `relu(⟨x_i, m⟩ - 0.5)` for the embedding m of another class in the memory that is nearest to `x_i`.

use curricle_sdk::prelude::*;

/// Settings of the loss.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TeacherMemory {
    /// Scale s of the similarities to the centres.
    #[schemars(range(min = 0.0))]
    scale: f64,
    /// Number of first epochs without the memory.
    warmup: u64,
}

impl Default for TeacherMemory {
    fn default() -> Self {
        Self { scale: 16.0, warmup: 1 }
    }
}

impl Loss for TeacherMemory {
    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let centers = [shape.classes, shape.embedding];
        vec![
            TensorSpec::trainable("centers", centers, Init::Normal { std: 1.0 }).lr_scale(100.0),
            TensorSpec::state("memory", [1024, shape.embedding], Init::Constant(0.0)),
            TensorSpec::state("memory_labels", [1024], Init::Constant(-1.0)).kind(Kind::Int64),
        ]
    }

    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let teacher = batch.ema_embeddings.ok_or_else(|| Error::other("needs the moving average"))?;
        let (kind, labels) = (batch.options().0, batch.labels.unsqueeze(1));
        let x = batch.embeddings.to_kind(kind);
        let logits = x.matmul(&batch.tensors.get("centers").to_kind(kind).tr()) * self.scale;
        let classify = -logits.log_softmax(1, kind).gather(1, &labels, false).squeeze_dim(1);
        let agree = 1.0 - (&x * teacher.to_kind(kind)).sum_dim_intlist(1, false, kind);

        // A copy: the memory changes below, and the backward pass needs what it was.
        let s = x.matmul(&batch.tensors.get("memory").to_kind(kind).copy().tr());
        let known = batch.tensors.get("memory_labels");
        let negative = labels.ne_tensor(known).logical_and(&known.ge(0));
        let nearest = s.masked_fill(&negative.logical_not(), -1.0).amax([1], false);
        log.per_sample("nearest_negative", &nearest);
        let mut each = classify + agree;
        if batch.info.epoch >= self.warmup {
            each += (nearest - 0.5).relu();
        }
        self.remember(batch)?;
        Ok(weighted_mean(&each, &batch.weights_or_ones()))
    }

    fn after_step(&self, tensors: &Tensors, _info: &StepInfo) -> Result<()> {
        let centers = tensors.get("centers");
        centers.shallow_clone().copy_(&(centers / centers.norm_scalaropt_dim(2.0, [-1], true)));
        Ok(())
    }

    fn needs_ema(&self) -> bool {
        true
    }
}

impl TeacherMemory {
    /// Writes the batch over the oldest rows; a sample of weight 0 gets the label of an empty row.
    fn remember(&self, batch: &Batch) -> Result<()> {
        let first = batch.info.global_step as i64 * batch.size();
        let rows = (Tensor::arange(batch.size(), (Kind::Int64, batch.ids.device())) + first).remainder(1024);
        tch::no_grad(|| {
            let memory = batch.tensors.get("memory");
            memory.shallow_clone().f_index_copy_(0, &rows, &batch.embeddings.to_kind(memory.kind()))
        })?;
        let labels = batch.labels.masked_fill(&batch.weights_or_ones().eq(0.0), -1);
        let _ = batch.tensors.get("memory_labels").shallow_clone().f_index_copy_(0, &rows, &labels)?;
        Ok(())
    }
}

/// Weighs samples by their cosine similarity to a moving average of their class.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ClassMeans {}

impl WeightScheme for ClassMeans {
    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        vec![TensorSpec::state("means", [shape.classes, shape.embedding], Init::Constant(0.0))]
    }

    fn weigh_batch(&self, batch: &Batch, log: &mut Log) -> Result<Option<Tensor>> {
        let means = batch.tensors.get("means");
        let x = batch.embeddings.to_kind(means.kind());
        let own = means.index_select(0, batch.labels);
        let own = &own / own.norm_scalaropt_dim(2.0, [1], true).clamp_min(1e-12);
        let agreement = (&x * own).sum_dim_intlist(1, false, means.kind());
        let _ = means.shallow_clone().g_mul_scalar_(0.9).f_index_add_(0, batch.labels, &(x * 0.1))?;
        log.per_sample("agreement", &agreement);
        Ok((batch.info.epoch > 0).then(|| agreement.clamp(0.1, 1.0)))
    }

    fn needs_embeddings(&self) -> bool {
        false
    }
}

register_loss!("teacher_memory", TeacherMemory, "centres, a memory of negatives and a teacher");
register_weights!("class_means", ClassMeans, "similarity to a moving average of the class, in every step");
curricle_sdk::export_plugin!();
