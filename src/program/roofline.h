/* program/roofline.h - the modelled time of a node. */
#ifndef FT_PROGRAM_ROOFLINE_H
#define FT_PROGRAM_ROOFLINE_H

#include "device/device.h"
#include "graph/graph.h"

/* Of a node on a device, ns: the larger of arithmetic and memory traffic at the device's rates,
 * plus the cost of a call. */
double ft_node_time_ns(const ft_graph *graph, int node, const ft_device *device);

#endif
