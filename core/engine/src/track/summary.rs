//! TensorBoard messages for scalars, histograms, images, texts and chart layouts.

use super::RgbImage;
use super::histogram::TensorboardHistogram;
use crate::Result;
use tensorboard_proto::layout::{Category, Chart, Layout, MultilineChartContent};
use tensorboard_proto::summary::{
    HistogramProto, Summary_Image, Summary_Value, SummaryMetadata, SummaryMetadata_PluginData,
};
use tensorboard_proto::tensor::TensorProto;
use tensorboard_proto::tensor_shape::{TensorShapeProto, TensorShapeProto_Dim};
use tensorboard_proto::types::DataType;

/// A scalar, which TensorBoard stores in single precision.
pub(super) fn scalar(tag: &str, value: f64) -> Summary_Value {
    let mut summary = tagged(tag);
    summary.set_simple_value(value as f32);
    summary
}

/// A histogram of the finite values.
pub(super) fn histogram(tag: &str, values: &[f64]) -> Summary_Value {
    let mut proto = HistogramProto::new();
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let TensorboardHistogram { min, limits, counts } = TensorboardHistogram::of(values);
    if let Some(max) = limits.last() {
        proto.set_min(min);
        proto.set_max(*max);
        proto.set_num(finite().count() as f64);
        proto.set_sum(finite().sum());
        proto.set_sum_squares(finite().map(|v| v * v).sum());
        proto.set_bucket_limit(limits);
        proto.set_bucket(counts);
    }
    let mut summary = tagged(tag);
    summary.set_histo(proto);
    summary
}

/// An image, as PNG.
pub(super) fn image(tag: &str, source: &RgbImage) -> Result<Summary_Value> {
    let mut image = Summary_Image::new();
    image.set_width(i32::try_from(source.width()).unwrap_or(i32::MAX));
    image.set_height(i32::try_from(source.height()).unwrap_or(i32::MAX));
    image.set_colorspace(if source.is_grey() { 1 } else { 3 });
    image.set_encoded_image_string(source.to_png()?);
    let mut summary = tagged(tag);
    summary.set_image(image);
    Ok(summary)
}

/// A Markdown text.
pub(super) fn text(tag: &str, markdown: &str) -> Summary_Value {
    let mut length = TensorShapeProto_Dim::new();
    length.set_size(1);
    let mut shape = TensorShapeProto::new();
    shape.set_dim(vec![length].into());
    let mut tensor = bytes(markdown.as_bytes());
    tensor.set_tensor_shape(shape);
    let mut summary = tagged(tag);
    summary.set_metadata(plugin("text", Vec::new()));
    summary.set_tensor(tensor);
    summary
}

/// Charts of the `Custom Scalars` tab, each a title and a pattern of tags.
pub(super) fn layout(category: &str, charts: &[(&str, &str)]) -> Result<Summary_Value> {
    let chart = |&(title, pattern): &(&str, &str)| {
        let mut lines = MultilineChartContent::new();
        lines.set_tag(vec![pattern.to_string()].into());
        let mut chart = Chart::new();
        chart.set_title(title.into());
        chart.set_multiline(lines);
        chart
    };
    let mut only = Category::new();
    only.set_title(category.into());
    only.set_chart(charts.iter().map(chart).collect());
    let mut layout = Layout::new();
    layout.set_category(vec![only].into());
    let mut summary = tagged("custom_scalars__config__");
    summary.set_metadata(plugin("custom_scalars", Vec::new()));
    summary.set_tensor(bytes(&encode(&layout)?));
    Ok(summary)
}

pub(super) fn tagged(tag: &str) -> Summary_Value {
    let mut summary = Summary_Value::new();
    summary.set_tag(tag.into());
    summary
}

pub(super) fn plugin(name: &str, content: Vec<u8>) -> SummaryMetadata {
    let mut data = SummaryMetadata_PluginData::new();
    data.set_plugin_name(name.into());
    data.set_content(content);
    let mut metadata = SummaryMetadata::new();
    metadata.set_plugin_data(data);
    metadata
}

pub(super) fn encode(message: &impl protobuf::Message) -> Result<Vec<u8>> {
    message.write_to_bytes().map_err(crate::Error::encode("a TensorBoard message"))
}

fn bytes(content: &[u8]) -> TensorProto {
    let mut tensor = TensorProto::new();
    tensor.set_dtype(DataType::DT_STRING);
    tensor.set_tensor_shape(TensorShapeProto::new());
    tensor.set_string_val(vec![content.to_vec()].into());
    tensor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::histogram::BUCKETS;
    use proptest::prelude::*;

    #[test]
    fn a_histogram_includes_both_ends_of_its_range() {
        let summary = histogram("h", &[0.0, 0.5, 1.0, 1.0, f64::NAN, f64::INFINITY]);
        let h = summary.get_histo();
        assert_eq!(
            (h.get_min(), h.get_max(), h.get_num(), h.get_sum(), h.get_sum_squares()),
            (0.0, 1.0, 4.0, 2.5, 2.25)
        );
        assert_eq!((h.get_bucket()[0], h.get_bucket()[BUCKETS / 2], h.get_bucket()[BUCKETS - 1]), (1.0, 1.0, 2.0));
        assert_eq!(h.get_bucket_limit()[BUCKETS - 1], 1.0);
    }

    #[test]
    fn an_empty_histogram_has_no_buckets_and_one_of_equal_values_has_one() {
        assert_eq!(histogram("h", &[f64::NAN]).get_histo(), &HistogramProto::new());
        let summary = histogram("h", &[0.25; 3]);
        assert_eq!(
            (summary.get_histo().get_bucket_limit(), summary.get_histo().get_bucket()),
            (&[0.25][..], &[3.0][..])
        );
    }

    proptest! {
        #[test]
        fn every_finite_value_is_in_one_bucket(values in prop::collection::vec(prop::num::f64::NORMAL, 1..50)) {
            let summary = histogram("h", &values);
            let h = summary.get_histo();
            prop_assert_eq!(h.get_bucket().iter().sum::<f64>(), values.len() as f64);
            prop_assert!(h.get_bucket_limit().is_sorted());
            prop_assert_eq!(*h.get_bucket_limit().last().unwrap(), h.get_max());
        }
    }
}
