"""Prints as JSON what TensorBoard's own reader finds in a log folder.

Usage: python read_events.py FOLDER

The tests compare this with what was written. All events are kept: TensorBoard's default samples
long series. Values that are not finite are printed as strings, since JSON has none.
"""

import json
import math
import struct
import sys

from tensorboard.backend.event_processing import plugin_event_accumulator
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util


def number(value):
    return value if math.isfinite(value) else str(value)


def plugin_tags(events, plugin):
    """The tags of a plugin with its own data for each; none if it is not in use."""
    try:
        return events.PluginTagToContent(plugin)
    except KeyError:
        return {}


def scalars(events, tag):
    return [[e.step, number(e.value)] for e in events.Scalars(tag)]


def histograms(events, tag):
    fields = ("min", "max", "num", "sum", "sum_squares")
    return [
        {
            "step": e.step,
            **{name: getattr(e.histogram_value, name) for name in fields},
            "bucket_limit": list(e.histogram_value.bucket_limit),
            "bucket": list(e.histogram_value.bucket),
        }
        for e in events.Histograms(tag)
    ]


def images(events, tag):
    found = []
    for e in events.Images(tag):
        # The size as the PNG file itself has it: in the header chunk, after 16 bytes.
        width, height = struct.unpack(">II", e.encoded_image_string[16:24])
        found.append({"step": e.step, "width": e.width, "height": e.height, "png": [width, height]})
    return found


def texts(events, tag):
    return [
        [e.step, [text.decode() for text in tensor_util.make_ndarray(e.tensor_proto).flatten()]]
        for e in events.Tensors(tag)
    ]


def layout(events):
    tag = "custom_scalars__config__"
    if tag not in events.Tags()["tensors"]:
        return None
    content = tensor_util.make_ndarray(events.Tensors(tag)[0].tensor_proto).item()
    message = layout_pb2.Layout.FromString(content)
    return {chart.title: list(chart.multiline.tag) for category in message.category for chart in category.chart}


def server_steps(folder):
    """The steps of every tag as TensorBoard's server sees them, which has its own reader."""
    everything = {plugin_event_accumulator.TENSORS: 0}
    events = plugin_event_accumulator.EventAccumulator(folder, size_guidance=everything)
    events.Reload()
    return {tag: [e.step for e in events.Tensors(tag)] for tag in events.Tags()["tensors"]}


def plain(value):
    return getattr(value, value.WhichOneof("kind"))


def hparams(events):
    found = {}
    for tag, content in plugin_tags(events, hparams_metadata.PLUGIN_NAME).items():
        message = plugin_data_pb2.HParamsPluginData.FromString(content)
        if tag == hparams_metadata.SESSION_START_INFO_TAG:
            start = message.session_start_info
            params = {name: plain(value) for name, value in start.hparams.items()}
            found["start"] = {"group": start.group_name, "params": params}
        elif tag == hparams_metadata.SESSION_END_INFO_TAG:
            found["end"] = message.session_end_info.status
        elif tag == hparams_metadata.EXPERIMENT_TAG:
            experiment = message.experiment
            found["experiment"] = {
                "params": [info.name for info in experiment.hparam_infos],
                "metrics": [info.name.tag for info in experiment.metric_infos],
            }
    return found


def read(folder):
    # Zero keeps everything.
    kinds = ("scalars", "histograms", "images", "tensors", "compressedHistograms", "audio")
    events = EventAccumulator(folder, size_guidance={kind: 0 for kind in kinds})
    events.Reload()
    tags = events.Tags()
    return {
        "scalars": {tag: scalars(events, tag) for tag in tags["scalars"]},
        "histograms": {tag: histograms(events, tag) for tag in tags["histograms"]},
        "images": {tag: images(events, tag) for tag in tags["images"]},
        "texts": {tag: texts(events, tag) for tag in plugin_tags(events, "text")},
        "layout": layout(events),
        "hparams": hparams(events),
        "server_steps": server_steps(folder),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    json.dump(read(sys.argv[1]), sys.stdout)
