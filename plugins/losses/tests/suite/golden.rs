//! Losses and gradients of independent implementations; `tests/golden/losses.py` writes the file.

use crate::common::{Data, difference, make};
use curricle_sdk::StepInfo;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use tch::{Kind, Tensor};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/losses.safetensors");

fn read(file: &SafeTensors, name: &str) -> Tensor {
    let view = file.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let kind = match view.dtype() {
        Dtype::F64 => Kind::Double,
        Dtype::I64 => Kind::Int64,
        other => panic!("{name} is {other:?}"),
    };
    let shape: Vec<i64> = view.shape().iter().map(|&n| n as i64).collect();
    Tensor::from_data_size(view.data(), &shape, kind)
}

/// The component of a gradient orthogonal to each embedding.
fn tangent(gradient: &Tensor, embeddings: &Tensor) -> Tensor {
    gradient - embeddings * (gradient * embeddings).sum_dim_intlist(1, true, None)
}

#[test]
fn losses_and_gradients_equal_the_golden_vectors() {
    let bytes = std::fs::read(FILE).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let cases = header.metadata().as_ref().unwrap()["cases"].clone();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    assert!(cases.len() > 100);
    let mut failures = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let loss = make(case["loss"].as_str().unwrap(), &case["settings"]);
        let tensor = case["tensor"].as_str();
        let batch = |name: &str| {
            let read = |what: &str| read(&file, &format!("batch.{name}.{what}"));
            Data {
                embeddings: read("embeddings"),
                labels: read("labels"),
                ids: read("ids"),
                weights: case["weighted"].as_bool().unwrap().then(|| read("weights")),
                tensors: Vec::new(),
                info: StepInfo::default(),
            }
        };
        let mut data = batch(case["batch"].as_str().unwrap());
        let of_case = |name: &str| read(&file, &format!("case.{index}.{name}")).set_requires_grad(true);
        data.tensors.extend(tensor.iter().map(|name| (name.to_string(), of_case(name))));
        if let Some(before) = case["before"].as_array() {
            data.tensors = Data::random(&*loss, &[0], data.embeddings.size()[1], 0).tensors;
            for name in before {
                data.tensors = Data { tensors: data.tensors, ..batch(name.as_str().unwrap()) }.evaluate(&*loss).state;
            }
        }
        let outcome = data.evaluate(&*loss);
        let mut wrong =
            vec![("loss", difference(&outcome.loss, &read(&file, &format!("case.{index}.loss")).squeeze()))];
        let expected = read(&file, &format!("case.{index}.grad"));
        wrong.push(match case["tangent"].as_bool().unwrap() {
            true => (
                "tangential grad",
                difference(&tangent(&outcome.grad, &data.embeddings), &tangent(&expected, &data.embeddings)),
            ),
            false => ("grad", difference(&outcome.grad, &expected)),
        });
        if let Some(name) = tensor {
            let expected = read(&file, &format!("case.{index}.grad.{name}"));
            wrong.push((name, difference(&outcome.tensor_grads[0].1, &expected)));
        }
        wrong.retain(|(_, difference)| difference.is_nan() || *difference > 1e-9);
        if !wrong.is_empty() {
            failures.push(format!("{index} {case}: {wrong:?}"));
        }
    }
    assert!(failures.is_empty(), "{} of {} differ:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
