"""ONNX operators as torch operations: one table, from an operator's name to its function and to what is refused.

To add an operator, write its function in the file of its subject and enter it here, with a refusal for options whose
effect is not reproduced exactly. What can be seen in the file is refused there; a ValueError while computing refuses
what only shows with records.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from taskveil.tasks.models import onnx_activations as activations
from taskveil.tasks.models import onnx_arithmetic as arithmetic
from taskveil.tasks.models import onnx_reductions as reductions
from taskveil.tasks.models import onnx_shapes as shapes
from taskveil.tasks.models import onnx_windows as windows
from taskveil.tasks.models.onnx_arithmetic import each, pair, several
from taskveil.tasks.models.onnx_nodes import Operator, first_output_only
from taskveil.tasks.models.onnx_reductions import over_positions, reduction

OPERATORS: dict[str, Operator] = {
    # Number by number.
    "Abs": each(torch.abs),
    "Add": pair(torch.add),
    "And": pair(torch.logical_and),
    "Cast": Operator(arithmetic.cast, arithmetic.unknown_type),
    "CastLike": Operator(arithmetic.cast_like),
    "Ceil": each(torch.ceil),
    "Clip": Operator(arithmetic.clip),
    "Cos": each(torch.cos),
    "Div": Operator(arithmetic.divide),
    "Equal": pair(torch.eq),
    "Erf": each(torch.erf),
    "Exp": each(torch.exp),
    "Floor": each(torch.floor),
    "Gemm": Operator(arithmetic.gemm),
    "Greater": pair(torch.gt),
    "GreaterOrEqual": pair(torch.ge),
    "Less": pair(torch.lt),
    "LessOrEqual": pair(torch.le),
    "Log": each(torch.log),
    "MatMul": pair(torch.matmul),
    "Max": several(torch.maximum),
    "Mean": Operator(arithmetic.mean_of_several),
    "Min": several(torch.minimum),
    "Mod": Operator(arithmetic.modulo),
    "Mul": pair(torch.mul),
    "Neg": each(torch.neg),
    "Not": each(torch.logical_not),
    "Or": pair(torch.logical_or),
    "Pow": Operator(arithmetic.power),
    "Reciprocal": each(torch.reciprocal),
    "Round": each(torch.round),
    "Sign": each(torch.sign),
    "Sin": each(torch.sin),
    "Sqrt": each(torch.sqrt),
    "Sub": pair(torch.sub),
    "Sum": several(torch.add),
    "Where": Operator(arithmetic.where),
    "Xor": pair(torch.logical_xor),
    # Activations and normalisations.
    "BatchNormalization": Operator(activations.batch_normalization, activations.batch_statistics),
    "Celu": Operator(activations.celu),
    "Dropout": Operator(lambda call: call.first, activations.dropout_in_training),  # nothing happens at inference
    "Elu": Operator(activations.elu),
    "Gelu": Operator(activations.gelu),
    "HardSigmoid": Operator(activations.hard_sigmoid),
    "HardSwish": each(activations.hard_swish),
    "InstanceNormalization": Operator(activations.instance_normalization),
    "LayerNormalization": Operator(activations.layer_normalization, first_output_only),
    "LeakyRelu": Operator(activations.leaky_relu),
    "LogSoftmax": activations.softmax(torch.log_softmax),
    "LpNormalization": Operator(activations.lp_normalization),
    "Mish": each(activations.mish),
    "PRelu": Operator(activations.prelu),
    "Relu": each(torch.relu),
    "Selu": Operator(activations.selu),
    "Shrink": Operator(activations.shrink),
    "Sigmoid": each(torch.sigmoid),
    "Softmax": activations.softmax(torch.softmax),
    "Softplus": each(activations.softplus),
    "Softsign": each(F.softsign),
    "Swish": Operator(activations.swish),
    "Tanh": each(torch.tanh),
    "ThresholdedRelu": Operator(activations.thresholded_relu),
    # Along axes.
    "GlobalAveragePool": over_positions(reductions.mean),
    "GlobalMaxPool": over_positions(reductions.largest),
    "ReduceL1": reduction(reductions.sum_of_sizes),
    "ReduceL2": reduction(reductions.length),
    "ReduceLogSum": reduction(reductions.log_of_sum),
    "ReduceLogSumExp": reduction(reductions.log_of_sum_of_exponentials),
    "ReduceMax": reduction(reductions.largest, same_for_one=True),
    "ReduceMean": reduction(reductions.mean, same_for_one=True),
    "ReduceMin": reduction(reductions.smallest, same_for_one=True),
    "ReduceProd": reduction(reductions.product, same_for_one=True),
    "ReduceSum": reduction(reductions.total, same_for_one=True),
    "ReduceSumSquare": reduction(reductions.sum_of_squares),
    # Sliding windows.
    "AveragePool": Operator(windows.average_pool, windows.unclear_average),
    "Conv": Operator(windows.conv, windows.gaps_in_automatic_padding),
    "ConvTranspose": Operator(windows.conv_transpose, windows.automatic_padding),
    "MaxPool": Operator(windows.max_pool, windows.unclear_maximum),
    # Shapes.
    "Concat": Operator(shapes.concat),
    "Constant": Operator(shapes.constant, shapes.no_numbers),
    "ConstantOfShape": Operator(shapes.constant_of_shape),
    "Expand": Operator(shapes.expand),
    "Flatten": Operator(shapes.flatten),
    "Gather": Operator(shapes.gather),
    "Identity": Operator(lambda call: call.first),
    "Pad": Operator(shapes.pad),
    "Range": Operator(shapes.range_),
    "Reshape": Operator(shapes.reshape),
    "Shape": Operator(shapes.shape_of),
    "Size": Operator(shapes.size_of),
    "Slice": Operator(shapes.slice_),
    "Split": Operator(shapes.split),
    "Squeeze": Operator(shapes.squeeze),
    "Tile": Operator(shapes.tile),
    "Transpose": Operator(shapes.transpose),
    "Unsqueeze": Operator(shapes.unsqueeze),
}
