//! Sizes and offsets of all records. `include/curricle_layout.h` has the same list.

use super::*;

/// Asserts the size of a record and the offset of each of its fields.
#[cfg(target_pointer_width = "64")]
macro_rules! layout {
    ($($record:ident[$size:literal] { $($field:ident $offset:literal),* })*) => {
        const _: () = {
            $(assert!(size_of::<$record>() == $size);
            $(assert!(std::mem::offset_of!($record, $field) == $offset);)*)*
        };
    };
}

#[cfg(target_pointer_width = "64")]
layout! {
    Str[16] { data 0, len 8 }
    Plugin[96] { magic 0, abi_major 8, abi_minor 12, size 16, sdk 24, tch 40, libtorch 56, target 72, visit 88 }
    Component[112] {
        size 0, kind 8, name 24, version 40, summary 56, data 72, schema 80, create 88, destroy 96, table 104
    }
    Host[16] { size 0, log 8 }
    TextSink[24] { size 0, context 8, write 16 }
    ErrorSink[24] { size 0, context 8, write 16 }
    ComponentSink[24] { size 0, context 8, component 16 }
    Shape[32] { size 0, classes 8, samples 16, embedding 24 }
    TensorSpec[96] {
        size 0, name 8, shape 24, dimensions 32, kind 40, init 44, init_a 48, init_b 56, trainable 64, group 72,
        lr_scale 88
    }
    TensorSink[24] { size 0, context 8, declare 16 }
    TensorList[32] { size 0, count 8, names 16, tensors 24 }
    StepRecord[64] { size 0, epoch 8, epochs 16, step 24, steps 32, global_step 40, classes 48, samples 56 }
    Batch[64] { size 0, embeddings 8, labels 16, ids 24, weights 32, ema_embeddings 40, tensors 48, step 56 }
    Log[40] { size 0, context 8, enabled 16, scalar 24, per_sample 32 }
    DataFacts[40] { size 0, class_sizes 8, classes 16, embedding_size 24, batch_size 32 }
    AdviceSink[24] { size 0, context 8, advise 16 }
    Epoch[40] { size 0, labels 8, samples 16, seed 24, epoch 32 }
    BatchSink[24] { size 0, context 8, batch 16 }
    LossInfo[40] { size 0, name 8, settings 24 }
    Round[96] {
        size 0, round 8, rounds 16, seed 24, embeddings 32, ema_embeddings 40, labels 48, weights 56, samples 64,
        tensors 72, loss 80, age 88
    }
    WeightSink[40] { size 0, context 8, weights 16, scalar 24, column 32 }
    LossTable[80] {
        size 0, forward 8, tensors 16, advice 24, after_step 32, needs_ema 40, initialise 48, gradient_is_exact 56,
        takes_weights 64, runs_on_host 72
    }
    SamplerTable[32] { size 0, batches 8, batch_size 16, advice 24 }
    WeightsTable[72] {
        size 0, update 8, weigh_batch 16, tensors 24, advice 32, needs_embeddings 40, is_uniform 48,
        before_training 56, needs_ema 64
    }
}
