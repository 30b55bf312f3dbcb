/* SPDX-License-Identifier: Apache-2.0 */
#include "base/macros.h"
#include "gl_format.h"

/* Bytes of a block of each format, by number: digits, and letters for 12, 16, 24 and 32; '-' is
 * a format of several planes, or none. virglrenderer's virgl_hw.h has the numbers, its
 * u_format.csv the sizes. */
static const char bytes_of[] = "-444422241112244244444418gow48cg48cg48cg48cg48cg24"
			       "68246824682468123441234-1234----1234-48cg246812344"
			       "4444488gg88gg88gg4442424448144144242448142288gg112"
			       "1224222424484-----112244444123412342468246848cg48c"
			       "g11121112222422244448444848444444488888ggg24448224"
			       "48842gggg22242244448888gg88ggggggggggggggggggggggg"
			       "ggggggg-4--21";

static const struct {
	uint16_t first, last; /* formats */
	uint8_t w, h;         /* of their blocks, in pixels */
} blocks[] = {
	{14, 15, 2, 1},     {105, 116, 4, 4},   {117, 118, 2, 1},   {127, 127, 8, 1},
	{143, 146, 4, 4},   {226, 226, 4, 4},   {227, 228, 2, 1},   {255, 258, 4, 4},
	{269, 279, 4, 4},   {280, 280, 5, 4},   {281, 281, 5, 5},   {282, 282, 6, 5},
	{283, 283, 6, 6},   {284, 284, 8, 5},   {285, 285, 8, 6},   {286, 286, 8, 8},
	{287, 287, 10, 5},  {288, 288, 10, 6},  {289, 289, 10, 8},  {290, 290, 10, 10},
	{291, 291, 12, 10}, {292, 292, 12, 12}, {293, 293, 4, 4},   {294, 294, 5, 4},
	{295, 295, 5, 5},   {296, 296, 6, 5},   {297, 297, 6, 6},   {298, 298, 8, 5},
	{299, 299, 8, 6},   {300, 300, 8, 8},   {301, 301, 10, 5},  {302, 302, 10, 6},
	{303, 303, 10, 8},  {304, 304, 10, 10}, {305, 305, 12, 10}, {306, 306, 12, 12},
};

static uint8_t bytes(char c)
{
	switch (c) {
	case 'c':
		return 12;
	case 'g':
		return 16;
	case 'o':
		return 24;
	case 'w':
		return 32;
	default:
		return (uint8_t)(c - '0');
	}
}

bool gl_format(uint32_t number, struct gl_format *ret)
{
	if (number >= sizeof(bytes_of) - 1 || bytes_of[number] == '-')
		return false;
	*ret = (struct gl_format){.w = 1, .h = 1, .bytes = bytes(bytes_of[number])};
	for (unsigned i = 0; i < ARRAY_SIZE(blocks); i++) {
		if (number < blocks[i].first || number > blocks[i].last)
			continue;
		ret->w = blocks[i].w;
		ret->h = blocks[i].h;
	}
	return true;
}

uint64_t gl_row(const struct gl_format *f, uint32_t width)
{
	return ((uint64_t)width + f->w - 1) / f->w * f->bytes;
}

uint64_t gl_rows(const struct gl_format *f, uint32_t height)
{
	return ((uint64_t)height + f->h - 1) / f->h;
}
