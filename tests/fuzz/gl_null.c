/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenGL that draws nothing, for virglrenderer's own code: what it decodes, keeps and hands on. A
 * context costs next to nothing, everything that is asked for is there, and what it gives to read
 * is read, what it gives to write is written, as far as a length is said.
 *
 * libepoxy's variables are the program's own here; gl_names.py makes those that are not below.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "gl/display.h"

/* A buffer that is mapped has no more. */
#define MAP_MAX (64l << 20)

unsigned long gl_nothing(void);
int epoxy_gl_version(void);
_Bool epoxy_is_desktop_gl(void);
_Bool epoxy_has_gl_extension(const char *name);

static volatile uint8_t sink;

unsigned long gl_nothing(void)
{
	return 0;
}

int epoxy_gl_version(void)
{
	return 45;
}

_Bool epoxy_is_desktop_gl(void)
{
	return 1;
}

_Bool epoxy_has_gl_extension(const char *name)
{
	(void)name;
	return 1;
}

/* ---- contexts ---- */

int display_open(int ordinal, unsigned threads, const char **ret_why)
{
	(void)ordinal;
	(void)threads;
	(void)ret_why;
	return 0;
}

void *display_context(int major, int minor, bool shared)
{
	(void)shared;
	return 10 * major + minor <= epoxy_gl_version() ? malloc(1) : NULL;
}

void display_context_free(void *context)
{
	free(context);
}

int display_current(void *context)
{
	sink = context ? *(uint8_t *)context : 0;
	return 0;
}

/* ---- what is asked ---- */

#define GL_LINE_WIDTH_RANGE      0x0B22
#define GL_POINT_SIZE_RANGE      0x0B12
#define GL_MAX_TEXTURE_SIZE      0x0D33
#define GL_MAX_3D_TEXTURE_SIZE   0x8073
#define GL_MAX_CUBE_TEXTURE_SIZE 0x851C
#define GL_EXTENSIONS            0x1F03
#define GL_NUM_EXTENSIONS        0x821D
#define GL_INFO_LOG_LENGTH       0x8B84
#define GL_FRAMEBUFFER_COMPLETE  0x8CD5
#define GL_ALREADY_SIGNALED      0x911A
#define GL_ALIASED_LINE_RANGE    0x846E
#define GL_ALIASED_POINT_RANGE   0x846D

static const char *get_string(unsigned name)
{
	return name == GL_EXTENSIONS ? "" : "4.5 (Core Profile) null";
}

static void get_integer(unsigned name, int *ret)
{
	switch (name) {
	case GL_MAX_TEXTURE_SIZE:
	case GL_MAX_CUBE_TEXTURE_SIZE:
	case GL_MAX_3D_TEXTURE_SIZE:
		*ret = 16384;
		return;
	case GL_NUM_EXTENSIONS:
		*ret = 0;
		return;
	default:
		*ret = 16;
	}
}

static void get_integer_64(unsigned name, int64_t *ret)
{
	(void)name;
	*ret = 16;
}

static void get_integer_at(unsigned name, unsigned at, int *ret)
{
	(void)at;
	get_integer(name, ret);
}

static void get_float(unsigned name, float *ret)
{
	ret[0] = 1;
	if (name == GL_LINE_WIDTH_RANGE || name == GL_POINT_SIZE_RANGE ||
	    name == GL_ALIASED_LINE_RANGE || name == GL_ALIASED_POINT_RANGE)
		ret[1] = 64;
}

static void get_multisample(unsigned name, unsigned at, float *ret)
{
	(void)name;
	(void)at;
	ret[0] = ret[1] = 0.5f;
}

/* A shader, a program, a pipeline, a query: done, and well, and nothing to say. */
static void get_state(unsigned object, unsigned name, int *ret)
{
	(void)object;
	*ret = name != GL_INFO_LOG_LENGTH;
}

static void get_state_64(unsigned object, unsigned name, uint64_t *ret)
{
	(void)object;
	(void)name;
	*ret = 1;
}

static void get_block(unsigned program, unsigned block, unsigned name, int *ret)
{
	(void)program;
	(void)block;
	(void)name;
	*ret = 4096;
}

static void get_log(unsigned object, int most, int *ret_length, char *ret)
{
	(void)object;
	if (ret_length)
		*ret_length = 0;
	if (most > 0)
		ret[0] = '\0';
}

static unsigned frame_buffer(unsigned target)
{
	(void)target;
	return GL_FRAMEBUFFER_COMPLETE;
}

/* ---- objects ---- */

static unsigned create(unsigned kind)
{
	static unsigned last;

	(void)kind;
	return ++last;
}

static void generate(int n, unsigned *ret)
{
	for (int i = 0; i < n; i++)
		ret[i] = create(0);
}

static void *fence(unsigned condition, unsigned flags)
{
	(void)condition;
	(void)flags;
	return &epoxy_gl_version;
}

static unsigned wait_fence(void *sync, unsigned flags, uint64_t ns)
{
	(void)sync;
	(void)flags;
	(void)ns;
	return GL_ALREADY_SIGNALED;
}

/* ---- bytes ---- */

static void look_at(const void *bytes, long n)
{
	for (long i = 0; bytes && i < n; i++)
		sink = ((const uint8_t *)bytes)[i];
}

static void shader_source(unsigned shader, int n, const char **text, const int *length)
{
	(void)shader;
	for (int i = 0; i < n; i++)
		look_at(text[i],
			length && length[i] >= 0 ? length[i] : (long)strlen(text[i]));
}

static void buffer_data(unsigned target, long size, const void *data, unsigned usage)
{
	(void)target;
	(void)usage;
	look_at(data, size);
}

static void buffer_part(unsigned target, long offset, long size, const void *data)
{
	(void)target;
	(void)offset;
	look_at(data, size);
}

static void *mapped;

/* One at a time, as long as is said. */
static void *map(unsigned target, long offset, long size, unsigned access)
{
	(void)target;
	(void)offset;
	(void)access;
	free(mapped);
	mapped = size > 0 && size <= MAP_MAX ? calloc(1, (size_t)size) : NULL;
	return mapped;
}

static uint8_t unmap(unsigned target)
{
	(void)target;
	free(mapped);
	mapped = NULL;
	return 1;
}

static void read_pixels(int x, int y, int w, int h, unsigned format, unsigned type, int n,
			void *ret)
{
	(void)x;
	(void)y;
	(void)w;
	(void)h;
	(void)format;
	(void)type;
	if (ret && n > 0)
		memset(ret, 1, (size_t)n);
}

static void read_image(unsigned target, int level, unsigned format, unsigned type, int n,
		       void *ret)
{
	(void)target;
	(void)level;
	read_pixels(0, 0, 0, 0, format, type, n, ret);
}

static void read_compressed(unsigned target, int level, int n, void *ret)
{
	read_image(target, level, 0, 0, n, ret);
}

static void compressed_2d(unsigned target, int level, int x, int y, int w, int h,
			  unsigned format, int n, const void *data)
{
	(void)target;
	(void)level;
	(void)x;
	(void)y;
	(void)w;
	(void)h;
	(void)format;
	look_at(data, n);
}

static void uniforms(int at, int n, const uint32_t *values)
{
	(void)at;
	look_at(values, 16l * n);
}

#define IS(name, function)                                                               \
	extern void *epoxy_##name;                                                       \
	void *epoxy_##name = (void *)function;

IS(glGetString, get_string)
IS(glGetIntegerv, get_integer)
IS(glGetInteger64v, get_integer_64)
IS(glGetIntegeri_v, get_integer_at)
IS(glGetFloatv, get_float)
IS(glGetMultisamplefv, get_multisample)
IS(glGetShaderiv, get_state)
IS(glGetProgramiv, get_state)
IS(glGetProgramPipelineiv, get_state)
IS(glGetQueryObjectiv, get_state)
IS(glGetQueryObjectuiv, get_state)
IS(glGetQueryObjecti64v, get_state_64)
IS(glGetQueryObjectui64v, get_state_64)
IS(glGetActiveUniformBlockiv, get_block)
IS(glGetShaderInfoLog, get_log)
IS(glGetProgramInfoLog, get_log)
IS(glCheckFramebufferStatus, frame_buffer)
IS(glCreateShader, create)
IS(glCreateProgram, create)
IS(glGenBuffers, generate)
IS(glGenBuffersARB, generate)
IS(glGenFramebuffers, generate)
IS(glGenProgramPipelines, generate)
IS(glGenQueries, generate)
IS(glGenRenderbuffers, generate)
IS(glGenSamplers, generate)
IS(glGenTextures, generate)
IS(glGenTransformFeedbacks, generate)
IS(glGenVertexArrays, generate)
IS(glFenceSync, fence)
IS(glClientWaitSync, wait_fence)
IS(glShaderSource, shader_source)
IS(glBufferData, buffer_data)
IS(glBufferSubData, buffer_part)
IS(glMapBufferRange, map)
IS(glUnmapBuffer, unmap)
IS(glReadnPixelsARB, read_pixels)
IS(glReadnPixelsKHR, read_pixels)
IS(glGetnTexImageARB, read_image)
IS(glGetnCompressedTexImageARB, read_compressed)
IS(glCompressedTexSubImage2D, compressed_2d)
IS(glUniform4uiv, uniforms)
