/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenes.h"

/* ---- what scenes have in common ---- */

#define VS_QUAD                                                                          \
	"out vec2 uv; void main() { uv = vec2(gl_VertexID & 1, gl_VertexID >> 1);"       \
	" gl_Position = vec4(uv * 2.0 - 1.0, 0.0, 1.0); }"

static GLuint compile(GLenum kind, const char *text)
{
	const char *lines[] = {"#version 430\n", text};
	GLuint s = glCreateShader(kind);
	char log[1024] = "";
	GLint ok;

	glShaderSource(s, 2, lines, NULL);
	glCompileShader(s);
	glGetShaderiv(s, GL_COMPILE_STATUS, &ok);
	if (!ok) {
		glGetShaderInfoLog(s, sizeof(log), NULL, log);
		fprintf(stderr, "%s\n%s\n", text, log);
		exit(1);
	}
	return s;
}

static void link_and_use(GLuint p)
{
	GLint ok;

	glLinkProgram(p);
	glGetProgramiv(p, GL_LINK_STATUS, &ok);
	if (!ok) {
		fprintf(stderr, "a program does not link\n");
		exit(1);
	}
	glUseProgram(p);
}

static GLuint program(const char *vs, const char *fs)
{
	GLuint p = glCreateProgram();

	glAttachShader(p, compile(GL_VERTEX_SHADER, vs));
	glAttachShader(p, compile(GL_FRAGMENT_SHADER, fs));
	link_and_use(p);
	return p;
}

static void quad(const char *fs)
{
	program(VS_QUAD, fs);
	glDrawArrays(GL_TRIANGLE_STRIP, 0, 4);
}

static GLuint buffer(GLenum target, const void *data, GLsizeiptr size)
{
	GLuint b;

	glGenBuffers(1, &b);
	glBindBuffer(target, b);
	glBufferData(target, size, data, GL_STATIC_DRAW);
	return b;
}

/* A triangle from x to x + 1 at depth z. */
static void triangle(float x, float z, float r, float g, float b, float a)
{
	GLuint p = program(
		"uniform vec2 at; void main() { vec2 v = vec2(gl_VertexID & 1,"
		" gl_VertexID >> 1) * 1.2; gl_Position = vec4(v + vec2(at.x, -0.6),"
		" at.y, 1.0); }",
		"uniform vec4 color; out vec4 c; void main() { c = color; }");

	glUniform2f(glGetUniformLocation(p, "at"), x, z);
	glUniform4f(glGetUniformLocation(p, "color"), r, g, b, a);
	glDrawArrays(GL_TRIANGLES, 0, 3);
}

/* Bytes that look like noise, and are always the same. */
static unsigned char *noise(size_t n)
{
	unsigned char *p = malloc(n);
	unsigned x = 12345;

	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
	return p;
}

static GLuint texture(GLenum target)
{
	GLuint t;

	glGenTextures(1, &t);
	glBindTexture(target, t);
	glTexParameteri(target, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
	glTexParameteri(target, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
	return t;
}

#define FS_TEXTURE                                                                       \
	"in vec2 uv; out vec4 c; uniform sampler2D t; void main() { c = texture(t, "     \
	"uv); }"

/* A texture of 16 x 16 in a format. */
static void in_format(GLenum internal, GLenum format, GLenum type, unsigned bytes)
{
	unsigned char *p = noise((size_t)16 * 16 * bytes);

	texture(GL_TEXTURE_2D);
	glPixelStorei(GL_UNPACK_ALIGNMENT, 1);
	glTexImage2D(GL_TEXTURE_2D, 0, (GLint)internal, 16, 16, 0, format, type, p);
	free(p);
	quad(FS_TEXTURE);
}

/* ---- scenes ---- */

static void clear(void)
{
	glClearColor(0.25f, 0.5f, 0.75f, 1);
	glClear(GL_COLOR_BUFFER_BIT);
}

static void scissor(void)
{
	glEnable(GL_SCISSOR_TEST);
	glScissor(10, 20, 30, 25);
	clear();
	glDisable(GL_SCISSOR_TEST);
}

static void flat(void)
{
	triangle(-0.6f, 0, 1, 0.5f, 0, 1);
}

static void smooth(void)
{
	program("out vec3 k; void main() { k = vec3(gl_VertexID == 0, gl_VertexID == 1,"
		" gl_VertexID == 2); gl_Position = vec4(k.yz * 1.5 - 0.75, 0, 1); }",
		"in vec3 k; out vec4 c; void main() { c = vec4(k, 1); }");
	glDrawArrays(GL_TRIANGLES, 0, 3);
}

static void gradient(void)
{
	quad("in vec2 uv; out vec4 c; void main() { c = vec4(uv, sin(uv.x * 20.0) * 0.5 "
	     "+ 0.5,"
	     " 1); }");
}

static void mandelbrot(void)
{
	quad("in vec2 uv; out vec4 c; void main() { vec2 z = vec2(0), k = uv * 3.0 -"
	     " vec2(2.0, 1.5); int i = 0; for (; i < 60 && dot(z, z) < 4.0; i++) z ="
	     " vec2(z.x * z.x - z.y * z.y, 2.0 * z.x * z.y) + k;"
	     " c = vec4(vec3(float(i) / 60.0), 1); }");
}

static void rgba8(void)
{
	in_format(GL_RGBA8, GL_RGBA, GL_UNSIGNED_BYTE, 4);
}

static void rgb565(void)
{
	in_format(GL_RGB565, GL_RGB, GL_UNSIGNED_SHORT_5_6_5, 2);
}

static void r8(void)
{
	in_format(GL_R8, GL_RED, GL_UNSIGNED_BYTE, 1);
}

static void rg16(void)
{
	in_format(GL_RG16, GL_RG, GL_UNSIGNED_SHORT, 4);
}

static void srgb8(void)
{
	in_format(GL_SRGB8_ALPHA8, GL_RGBA, GL_UNSIGNED_BYTE, 4);
}

static void rgb10a2(void)
{
	in_format(GL_RGB10_A2, GL_RGBA, GL_UNSIGNED_INT_2_10_10_10_REV, 4);
}

static void rgba32f(void)
{
	float p[8 * 8 * 4];

	for (int i = 0; i < 8 * 8 * 4; i++)
		p[i] = (float)(i % 37) / 37;
	texture(GL_TEXTURE_2D);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA32F, 8, 8, 0, GL_RGBA, GL_FLOAT, p);
	quad(FS_TEXTURE);
}

static void integers(void)
{
	unsigned p[64];

	for (unsigned i = 0; i < 64; i++)
		p[i] = i * 1000003;
	texture(GL_TEXTURE_2D);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_R32UI, 8, 8, 0, GL_RED_INTEGER, GL_UNSIGNED_INT,
		     p);
	quad("in vec2 uv; out vec4 c; uniform usampler2D t; void main() { uint v = "
	     "texture(t,"
	     " uv).r; c = vec4(v & 255u, v >> 8 & 255u, v >> 16 & 255u, 255u) / 255.0; "
	     "}");
}

static void compressed(void)
{
	unsigned char *p = noise(16 * 16);

	texture(GL_TEXTURE_2D);
	glCompressedTexImage2D(GL_TEXTURE_2D, 0, GL_COMPRESSED_RG_RGTC2, 16, 16, 0,
			       16 * 16, p);
	free(p);
	quad(FS_TEXTURE);
}

static void linear(void)
{
	unsigned char *p = noise(8 * 8 * 4);

	texture(GL_TEXTURE_2D);
	glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_LINEAR);
	glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_MIRRORED_REPEAT);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, 8, 8, 0, GL_RGBA, GL_UNSIGNED_BYTE, p);
	free(p);
	quad("in vec2 uv; out vec4 c; uniform sampler2D t; void main() { c = texture(t, "
	     "uv *"
	     " 3.0); }");
}

static void mipmaps(void)
{
	unsigned char *p = noise(64 * 64 * 4);

	texture(GL_TEXTURE_2D);
	glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST_MIPMAP_NEAREST);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, 64, 64, 0, GL_RGBA, GL_UNSIGNED_BYTE, p);
	glGenerateMipmap(GL_TEXTURE_2D);
	free(p);
	quad("in vec2 uv; out vec4 c; uniform sampler2D t; void main() { c = "
	     "textureLod(t, uv,"
	     " floor(uv.x * 5.0)); }");
}

static void levels(void)
{
	texture(GL_TEXTURE_2D);
	glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST_MIPMAP_NEAREST);
	glTexStorage2D(GL_TEXTURE_2D, 5, GL_RGBA8, 16, 16);
	for (int l = 0; l < 5; l++) {
		unsigned char *p = noise((size_t)(16 >> l) * (16 >> l) * 4);

		glTexSubImage2D(GL_TEXTURE_2D, l, 0, 0, 16 >> l, 16 >> l, GL_RGBA,
				GL_UNSIGNED_BYTE, p);
		free(p);
	}
	quad("in vec2 uv; out vec4 c; uniform sampler2D t; void main() { c = "
	     "textureLod(t, uv,"
	     " floor(uv.y * 5.0)); }");
}

static void part(void)
{
	unsigned char *p = noise(32 * 32 * 4);

	texture(GL_TEXTURE_2D);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, 32, 32, 0, GL_RGBA, GL_UNSIGNED_BYTE, p);
	glTexSubImage2D(GL_TEXTURE_2D, 0, 5, 7, 13, 11, GL_RGBA, GL_UNSIGNED_BYTE, p);
	free(p);
	quad(FS_TEXTURE);
}

static void cube(void)
{
	texture(GL_TEXTURE_CUBE_MAP);
	for (unsigned f = 0; f < 6; f++) {
		unsigned char *p = noise(8 * 8 * 4 + f);

		glTexImage2D(GL_TEXTURE_CUBE_MAP_POSITIVE_X + f, 0, GL_RGBA8, 8, 8, 0,
			     GL_RGBA, GL_UNSIGNED_BYTE, p + f);
		free(p);
	}
	quad("in vec2 uv; out vec4 c; uniform samplerCube t; void main() { vec2 a = uv * "
	     "6.28;"
	     " c = texture(t, vec3(sin(a.x), cos(a.x) * sin(a.y), cos(a.y))); }");
}

static void volume(void)
{
	unsigned char *p = noise(8 * 8 * 8 * 4);

	texture(GL_TEXTURE_3D);
	glTexImage3D(GL_TEXTURE_3D, 0, GL_RGBA8, 8, 8, 8, 0, GL_RGBA, GL_UNSIGNED_BYTE,
		     p);
	free(p);
	quad("in vec2 uv; out vec4 c; uniform sampler3D t; void main() { c = texture(t,"
	     " vec3(uv, uv.x * uv.y)); }");
}

static void layers(void)
{
	unsigned char *p = noise(8 * 8 * 5 * 4);

	texture(GL_TEXTURE_2D_ARRAY);
	glTexImage3D(GL_TEXTURE_2D_ARRAY, 0, GL_RGBA8, 8, 8, 5, 0, GL_RGBA,
		     GL_UNSIGNED_BYTE, p);
	free(p);
	quad("in vec2 uv; out vec4 c; uniform sampler2DArray t; void main() { c = "
	     "texture(t,"
	     " vec3(uv, floor(uv.x * 5.0))); }");
}

static void depth(void)
{
	GLuint rb;

	glGenRenderbuffers(1, &rb);
	glBindRenderbuffer(GL_RENDERBUFFER, rb);
	glRenderbufferStorage(GL_RENDERBUFFER, GL_DEPTH_COMPONENT24, SIDE, SIDE);
	glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_DEPTH_ATTACHMENT, GL_RENDERBUFFER,
				  rb);
	glEnable(GL_DEPTH_TEST);
	glClear(GL_DEPTH_BUFFER_BIT);
	triangle(-0.6f, 0.2f, 1, 0, 0, 1);
	triangle(-0.3f, 0.5f, 0, 1, 0, 1);
	triangle(-0.8f, -0.5f, 0, 0, 1, 1);
}

static void stencil(void)
{
	GLuint rb;

	glGenRenderbuffers(1, &rb);
	glBindRenderbuffer(GL_RENDERBUFFER, rb);
	glRenderbufferStorage(GL_RENDERBUFFER, GL_DEPTH24_STENCIL8, SIDE, SIDE);
	glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_DEPTH_STENCIL_ATTACHMENT,
				  GL_RENDERBUFFER, rb);
	glClear(GL_DEPTH_BUFFER_BIT | GL_STENCIL_BUFFER_BIT);
	glEnable(GL_STENCIL_TEST);
	glStencilFunc(GL_ALWAYS, 1, 255);
	glStencilOp(GL_KEEP, GL_KEEP, GL_INCR);
	triangle(-0.6f, 0, 1, 0, 0, 1);
	glStencilFunc(GL_EQUAL, 0, 255);
	triangle(-0.9f, 0, 0, 1, 0, 1);
}

static void blend(void)
{
	glEnable(GL_BLEND);
	glBlendFunc(GL_SRC_ALPHA, GL_ONE_MINUS_SRC_ALPHA);
	triangle(-0.6f, 0, 1, 0, 0, 0.5f);
	triangle(-0.3f, 0, 0, 1, 0, 0.5f);
	glBlendEquation(GL_FUNC_REVERSE_SUBTRACT);
	triangle(-0.8f, 0, 0.2f, 0.3f, 1, 0.5f);
}

static void logic(void)
{
	clear();
	glEnable(GL_COLOR_LOGIC_OP);
	glLogicOp(GL_XOR);
	triangle(-0.6f, 0, 1, 0.5f, 0.25f, 1);
}

static void mask(void)
{
	glColorMask(1, 0, 1, 0);
	triangle(-0.6f, 0, 1, 1, 1, 1);
	glColorMask(1, 1, 1, 1);
}

/* Has what follows drawn aside, with so many samples; returns the picture's framebuffer. */
static GLuint aside(GLsizei n)
{
	GLint picture;
	GLuint fb, rb;

	glGetIntegerv(GL_DRAW_FRAMEBUFFER_BINDING, &picture);
	glGenFramebuffers(1, &fb);
	glGenRenderbuffers(1, &rb);
	glBindFramebuffer(GL_FRAMEBUFFER, fb);
	glBindRenderbuffer(GL_RENDERBUFFER, rb);
	glRenderbufferStorageMultisample(GL_RENDERBUFFER, n, GL_RGBA8, SIDE, SIDE);
	glFramebufferRenderbuffer(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_RENDERBUFFER,
				  rb);
	glClear(GL_COLOR_BUFFER_BIT);
	return (GLuint)picture;
}

static void samples(void)
{
	GLuint picture = aside(4);

	triangle(-0.6f, 0, 1, 1, 0, 1);
	glBindFramebuffer(GL_DRAW_FRAMEBUFFER, picture);
	glBlitFramebuffer(0, 0, SIDE, SIDE, 0, 0, SIDE, SIDE, GL_COLOR_BUFFER_BIT,
			  GL_NEAREST);
	glBindFramebuffer(GL_FRAMEBUFFER, picture);
}

static void targets(void)
{
	static const GLenum both[] = {GL_COLOR_ATTACHMENT0, GL_COLOR_ATTACHMENT1};
	GLuint second = texture(GL_TEXTURE_2D);

	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, SIDE, SIDE, 0, GL_RGBA, GL_UNSIGNED_BYTE,
		     NULL);
	glFramebufferTexture(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT1, second, 0);
	glDrawBuffers(2, both);
	quad("in vec2 uv; layout(location = 0) out vec4 a; layout(location = 1) out vec4 "
	     "b;"
	     " void main() { a = vec4(0); b = vec4(uv.yx, 0.5, 1); }");
	glDrawBuffers(1, both);
	glFramebufferTexture(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT1, 0, 0);
	quad("in vec2 uv; out vec4 c; uniform sampler2D t; void main() { c = texture(t, "
	     "uv.yx);"
	     " }");
}

static void instances(void)
{
	program("flat out int i; void main() { i = gl_InstanceID; vec2 v = "
		"vec2(gl_VertexID & 1,"
		" gl_VertexID >> 1) * 0.2; gl_Position = vec4(v + vec2(i % 8, i / 8) * "
		"0.25 -"
		" 1.0, 0, 1); }",
		"flat in int i; out vec4 c; void main() { c = vec4(i & 3, i >> 2 & 3, i "
		">> 4, 3) /"
		" 3.0; }");
	glDrawArraysInstanced(GL_TRIANGLE_STRIP, 0, 4, 64);
}

static void attributes(void)
{
	static const float v[] = {-0.9f, -0.9f, 1,    0,    0, 0.9f, -0.7f, 0,
				  1,     0,     0.1f, 0.8f, 0, 0,    1};
	static const unsigned short index[] = {2, 0, 1};

	program("layout(location = 0) in vec2 at; layout(location = 1) in vec3 k; out "
		"vec3 kk;"
		" void main() { kk = k; gl_Position = vec4(at, 0, 1); }",
		"in vec3 kk; out vec4 c; void main() { c = vec4(kk, 1); }");
	buffer(GL_ARRAY_BUFFER, v, sizeof(v));
	glVertexAttribPointer(0, 2, GL_FLOAT, 0, 20, NULL);
	glVertexAttribPointer(1, 3, GL_FLOAT, 0, 20, (void *)8);
	glEnableVertexAttribArray(0);
	glEnableVertexAttribArray(1);
	buffer(GL_ELEMENT_ARRAY_BUFFER, index, sizeof(index));
	glDrawElements(GL_TRIANGLES, 3, GL_UNSIGNED_SHORT, NULL);
	glDisableVertexAttribArray(0);
	glDisableVertexAttribArray(1);
}

static void restart(void)
{
	static const unsigned char index[] = {0, 1, 2, 255, 3, 1, 2};

	program("void main() { gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> "
		"1) * 1.4"
		" - 0.7, 0, 1); }",
		"out vec4 c; void main() { c = vec4(gl_PrimitiveID, 1, 0, 1); }");
	buffer(GL_ELEMENT_ARRAY_BUFFER, index, sizeof(index));
	glEnable(GL_PRIMITIVE_RESTART_FIXED_INDEX);
	glDrawElements(GL_TRIANGLE_STRIP, 7, GL_UNSIGNED_BYTE, NULL);
	glDisable(GL_PRIMITIVE_RESTART_FIXED_INDEX);
}

static void uniforms(void)
{
	float k[64];

	for (int i = 0; i < 64; i++)
		k[i] = (float)i / 64;
	buffer(GL_UNIFORM_BUFFER, k, sizeof(k));
	glBindBufferBase(GL_UNIFORM_BUFFER, 0, buffer(GL_UNIFORM_BUFFER, k, sizeof(k)));
	quad("in vec2 uv; out vec4 c; layout(std140, binding = 0) uniform U { vec4 "
	     "k[16]; };"
	     " void main() { c = k[int(uv.x * 16.0)]; }");
}

static void compute(void)
{
	GLuint p = glCreateProgram();

	glAttachShader(p,
		       compile(GL_COMPUTE_SHADER,
			       "layout(local_size_x = 32) in; layout(std430, binding = 0)"
			       " buffer B { uint v[]; }; shared uint s[32]; void main() {"
			       " uint l = gl_LocalInvocationID.x; s[l] ="
			       " gl_GlobalInvocationID.x * 2654435761u; barrier();"
			       " v[gl_GlobalInvocationID.x] = s[31u - l]; }"));
	link_and_use(p);
	glBindBufferBase(GL_SHADER_STORAGE_BUFFER, 0,
			 buffer(GL_SHADER_STORAGE_BUFFER, NULL, 4096 * 4));
	glDispatchCompute(4096 / 32, 1, 1);
	glMemoryBarrier(GL_SHADER_STORAGE_BARRIER_BIT);
	quad("in vec2 uv; out vec4 c; layout(std430, binding = 0) buffer B { uint v[]; };"
	     " void main() { uint k = v[uint(uv.y * 64.0) * 64u + uint(uv.x * 64.0)];"
	     " c = vec4(k & 255u, k >> 8 & 255u, k >> 16 & 255u, 255u) / 255.0; }");
}

static void images(void)
{
	GLuint t = texture(GL_TEXTURE_2D), p = glCreateProgram();

	glTexStorage2D(GL_TEXTURE_2D, 1, GL_RGBA8, SIDE, SIDE);
	glBindImageTexture(0, t, 0, 0, 0, GL_WRITE_ONLY, GL_RGBA8);
	glAttachShader(p,
		       compile(GL_COMPUTE_SHADER,
			       "layout(local_size_x = 8, local_size_y = 8) in;"
			       " layout(rgba8, binding = 0) writeonly uniform image2D i;"
			       " void main() { ivec2 a = ivec2(gl_GlobalInvocationID.xy);"
			       " imageStore(i, a, vec4(a.x ^ a.y, a.x & a.y, a.x, 63) /"
			       " 63.0); }"));
	link_and_use(p);
	glDispatchCompute(SIDE / 8, SIDE / 8, 1);
	glMemoryBarrier(GL_TEXTURE_FETCH_BARRIER_BIT);
	quad(FS_TEXTURE);
}

static void feedback(void)
{
	static const char *const out[] = {"v"};
	GLuint p = glCreateProgram(), b;

	glAttachShader(
		p, compile(GL_VERTEX_SHADER,
			   "out vec4 v; void main() { float a = float(gl_VertexID) *"
			   " 2.1; v = vec4(cos(a), sin(a), 0, 1) * vec4(0.8, 0.8, 1, 1);"
			   " gl_Position = v; }"));
	glTransformFeedbackVaryings(p, 1, out, GL_INTERLEAVED_ATTRIBS);
	link_and_use(p);
	b = buffer(GL_TRANSFORM_FEEDBACK_BUFFER, NULL, 3 * 16);
	glBindBufferBase(GL_TRANSFORM_FEEDBACK_BUFFER, 0, b);
	glEnable(GL_RASTERIZER_DISCARD);
	glBeginTransformFeedback(GL_POINTS);
	glDrawArrays(GL_POINTS, 0, 3);
	glEndTransformFeedback();
	glDisable(GL_RASTERIZER_DISCARD);
	program("layout(location = 0) in vec4 at; void main() { gl_Position = at; }",
		"out vec4 c; void main() { c = vec4(0.3, 0.9, 0.6, 1); }");
	glBindBuffer(GL_ARRAY_BUFFER, b);
	glVertexAttribPointer(0, 4, GL_FLOAT, 0, 0, NULL);
	glEnableVertexAttribArray(0);
	glDrawArrays(GL_TRIANGLES, 0, 3);
	glDisableVertexAttribArray(0);
}

static void geometry(void)
{
	GLuint p = glCreateProgram();

	glAttachShader(
		p, compile(GL_VERTEX_SHADER,
			   "void main() { gl_Position = vec4(float(gl_VertexID) * 0.5 -"
			   " 0.8, 0, 0, 1); }"));
	glAttachShader(
		p,
		compile(GL_GEOMETRY_SHADER,
			"layout(points) in; layout(triangle_strip, max_vertices = 3)"
			" out; void main() { vec4 a = gl_in[0].gl_Position;"
			" gl_Position = a; EmitVertex(); gl_Position = a + vec4(0.4, 0,"
			" 0, 0); EmitVertex(); gl_Position = a + vec4(0, 0.7, 0, 0);"
			" EmitVertex(); }"));
	glAttachShader(p,
		       compile(GL_FRAGMENT_SHADER,
			       "out vec4 c; void main() { c = vec4(1, 0.4, 0.7, 1); }"));
	link_and_use(p);
	glDrawArrays(GL_POINTS, 0, 4);
}

static void tessellation(void)
{
	GLuint p = glCreateProgram();

	glAttachShader(
		p, compile(GL_VERTEX_SHADER, "void main() { gl_Position = vec4(0); }"));
	glAttachShader(
		p, compile(GL_TESS_CONTROL_SHADER,
			   "layout(vertices = 1) out; void main() { gl_TessLevelOuter ="
			   " float[4](4., 4., 4., 4.); gl_TessLevelInner = float[2](4.,"
			   " 4.); }"));
	glAttachShader(
		p, compile(GL_TESS_EVALUATION_SHADER,
			   "layout(quads, point_mode) in; void main() { gl_PointSize ="
			   " 5.0; gl_Position = vec4(gl_TessCoord.xy * 1.6 - 0.8, 0, 1);"
			   " }"));
	glAttachShader(p,
		       compile(GL_FRAGMENT_SHADER,
			       "out vec4 c; void main() { c = vec4(0.2, 1, 0.8, 1); }"));
	link_and_use(p);
	glEnable(GL_PROGRAM_POINT_SIZE);
	glPatchParameteri(GL_PATCH_VERTICES, 1);
	glDrawArrays(GL_PATCHES, 0, 1);
}

static void points(void)
{
	program("void main() { float a = float(gl_VertexID); gl_PointSize = 1.0 + a;"
		" gl_Position = vec4(cos(a) * 0.7, sin(a) * 0.7, 0, 1); }",
		"out vec4 c; void main() { c = vec4(gl_PointCoord, 1, 1); }");
	glEnable(GL_PROGRAM_POINT_SIZE);
	glDrawArrays(GL_POINTS, 0, 7);
}

static void lines(void)
{
	program("void main() { float a = float(gl_VertexID) * 2.3; gl_Position ="
		" vec4(cos(a) * 0.9, sin(a) * 0.9, 0, 1); }",
		"out vec4 c; void main() { c = vec4(1); }");
	glDrawArrays(GL_LINE_LOOP, 0, 11);
}

/* How many pixels a triangle has, as a color. */
static void occlusion(void)
{
	GLuint q, n = 0;

	glGenQueries(1, &q);
	glBeginQuery(GL_SAMPLES_PASSED, q);
	triangle(-0.6f, 0, 1, 0, 0, 1);
	glEndQuery(GL_SAMPLES_PASSED);
	glGetQueryObjectuiv(q, GL_QUERY_RESULT, &n);
	glClearColor((float)(n & 255) / 255, (float)(n >> 8) / 255, 0.5f, 1);
	glClear(GL_COLOR_BUFFER_BIT);
}

static void conditional(void)
{
	GLuint q;

	glGenQueries(1, &q);
	glBeginQuery(GL_ANY_SAMPLES_PASSED, q);
	triangle(-5, 0, 1, 0, 0, 1); /* out of sight */
	glEndQuery(GL_ANY_SAMPLES_PASSED);
	glBeginConditionalRender(q, GL_QUERY_WAIT);
	clear();
	triangle(-0.6f, 0, 1, 1, 1, 1);
	glEndConditionalRender();
	triangle(-0.3f, 0, 0, 1, 0, 1);
}

static void blit(void)
{
	GLuint picture = aside(0);

	gradient();
	glBindFramebuffer(GL_DRAW_FRAMEBUFFER, picture);
	glBlitFramebuffer(0, 0, 32, 32, 63, 63, 10, 5, GL_COLOR_BUFFER_BIT, GL_NEAREST);
	glBindFramebuffer(GL_FRAMEBUFFER, picture);
}

/* Pixels that are read back are drawn again, upside down. */
static void readback(void)
{
	static unsigned char p[SIDE * SIDE * 4];

	mandelbrot();
	glReadPixels(0, 0, SIDE, SIDE, GL_RGBA, GL_UNSIGNED_BYTE, p);
	texture(GL_TEXTURE_2D);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, SIDE, SIDE, 0, GL_RGBA, GL_UNSIGNED_BYTE,
		     p);
	quad("in vec2 uv; out vec4 c; uniform sampler2D t; void main() { c = texture(t,"
	     " vec2(uv.x, 1.0 - uv.y)); }");
}

static void pack(void)
{
	GLuint b = buffer(GL_PIXEL_PACK_BUFFER, NULL, SIDE * SIDE * 4);
	unsigned char *p;

	gradient();
	glReadPixels(0, 0, SIDE, SIDE, GL_BGRA, GL_UNSIGNED_BYTE, NULL);
	p = glMapBufferRange(GL_PIXEL_PACK_BUFFER, 0, SIDE * SIDE * 4, GL_MAP_READ_BIT);
	glClearColor((float)p[1000] / 255, (float)p[2001] / 255, (float)p[3002] / 255, 1);
	glUnmapBuffer(GL_PIXEL_PACK_BUFFER);
	glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
	glDeleteBuffers(1, &b);
	glClear(GL_COLOR_BUFFER_BIT);
}

static void changes(void)
{
	float v[] = {-0.5f, -0.5f, 0.5f, -0.5f, 0, 0.5f}, *at;

	program("layout(location = 0) in vec2 at; void main() { gl_Position = vec4(at, "
		"0, 1); }",
		"out vec4 c; void main() { c = vec4(0.9, 0.2, 0.4, 1); }");
	buffer(GL_ARRAY_BUFFER, v, sizeof(v));
	glVertexAttribPointer(0, 2, GL_FLOAT, 0, 0, NULL);
	glEnableVertexAttribArray(0);
	glDrawArrays(GL_TRIANGLES, 0, 3);
	v[4] = v[5] = -0.95f;
	glBufferSubData(GL_ARRAY_BUFFER, 16, 8, v + 4);
	glDrawArrays(GL_TRIANGLES, 0, 3);
	at = glMapBufferRange(GL_ARRAY_BUFFER, 0, sizeof(v),
			      GL_MAP_READ_BIT | GL_MAP_WRITE_BIT);
	at[4] = 0.9f + at[5] + 0.95f;
	at[5] = 0.9f;
	glUnmapBuffer(GL_ARRAY_BUFFER);
	glDrawArrays(GL_TRIANGLES, 0, 3);
	glDisableVertexAttribArray(0);
}

static void shadow(void)
{
	float p[64];

	for (int i = 0; i < 64; i++)
		p[i] = (float)i / 63;
	texture(GL_TEXTURE_2D);
	glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_COMPARE_MODE,
			GL_COMPARE_REF_TO_TEXTURE);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_DEPTH_COMPONENT32F, 8, 8, 0, GL_DEPTH_COMPONENT,
		     GL_FLOAT, p);
	quad("in vec2 uv; out vec4 c; uniform sampler2DShadow t; void main() { c ="
	     " vec4(texture(t, vec3(uv, 0.5))); }");
}

static void copies(void)
{
	GLuint from = texture(GL_TEXTURE_2D), to;
	unsigned char *p = noise(16 * 16 * 4);

	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, 16, 16, 0, GL_RGBA, GL_UNSIGNED_BYTE, p);
	free(p);
	to = texture(GL_TEXTURE_2D);
	glTexStorage2D(GL_TEXTURE_2D, 1, GL_RGBA8, 32, 32);
	for (int i = 0; i < 4; i++)
		glCopyImageSubData(from, GL_TEXTURE_2D, 0, 0, 0, 0, to, GL_TEXTURE_2D, 0,
				   16 * (i & 1), 16 * (i >> 1), 0, 16 - i, 16, 1);
	quad(FS_TEXTURE);
}

static void texels(void)
{
	unsigned char *p = noise(256 * 4);
	GLuint t;

	glGenTextures(1, &t);
	glBindTexture(GL_TEXTURE_BUFFER, t);
	glTexBuffer(GL_TEXTURE_BUFFER, GL_RGBA8, buffer(GL_TEXTURE_BUFFER, p, 256 * 4));
	free(p);
	quad("in vec2 uv; out vec4 c; uniform samplerBuffer t; void main() { c = "
	     "texelFetch(t,"
	     " int(uv.x * 16.0) + int(uv.y * 16.0) * 16); }");
}

static void indirect(void)
{
	static const GLuint args[] = {4, 3, 0, 0};

	program("out vec2 uv; void main() { uv = vec2(gl_VertexID & 1, gl_VertexID >> 1);"
		" gl_Position = vec4(uv * 0.5 + vec2(gl_InstanceID) * 0.6 - 0.9, 0, 1); "
		"}",
		"in vec2 uv; out vec4 c; void main() { c = vec4(uv, 0.5, 1); }");
	buffer(GL_DRAW_INDIRECT_BUFFER, args, sizeof(args));
	glDrawArraysIndirect(GL_TRIANGLE_STRIP, NULL);
}

/* More than a record of the lane's has room for: 4 MiB there, and rows of it back. */
static void large(void)
{
	unsigned char *p = noise((size_t)1024 * 1024 * 4),
		      *back = malloc((size_t)1024 * 1024 * 4);
	unsigned sum = 0;

	texture(GL_TEXTURE_2D);
	glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, 1024, 1024, 0, GL_RGBA, GL_UNSIGNED_BYTE,
		     p);
	quad(FS_TEXTURE);
	glGetTexImage(GL_TEXTURE_2D, 0, GL_RGBA, GL_UNSIGNED_BYTE, back);
	for (size_t i = 0; i < (size_t)1024 * 1024 * 4; i++)
		sum += p[i] != back[i];
	if (sum)
		clear();
	free(p);
	free(back);
}

/* Green, once the device has done all that was drawn. */
static void fences(void)
{
	GLsync first, last;
	GLenum told[2];

	quad("in vec2 uv; out vec4 c; void main() { float s = 0.0; for (int i = 0; i < "
	     "2000; "
	     "i++) s += sin(uv.x * float(i)); c = vec4(s, uv, 1); }");
	first = glFenceSync(GL_SYNC_GPU_COMMANDS_COMPLETE, 0);
	clear();
	last = glFenceSync(GL_SYNC_GPU_COMMANDS_COMPLETE, 0);
	told[0] = glClientWaitSync(last, GL_SYNC_FLUSH_COMMANDS_BIT, 10000000000ull);
	told[1] = glClientWaitSync(first, 0, 0);
	glClearColor(0,
		     told[0] == GL_CONDITION_SATISFIED || told[0] == GL_ALREADY_SIGNALED,
		     told[1] != GL_ALREADY_SIGNALED, 1);
	glClear(GL_COLOR_BUFFER_BIT);
	glDeleteSync(first);
	glDeleteSync(last);
}

#define SCENE(x)                                                                         \
	{                                                                                \
#x, x                                                                    \
	}

const struct scene scenes[] = {
	SCENE(clear),     SCENE(scissor),      SCENE(flat),       SCENE(smooth),
	SCENE(gradient),  SCENE(mandelbrot),   SCENE(rgba8),      SCENE(rgb565),
	SCENE(r8),        SCENE(rg16),         SCENE(srgb8),      SCENE(rgb10a2),
	SCENE(rgba32f),   SCENE(integers),     SCENE(compressed), SCENE(linear),
	SCENE(mipmaps),   SCENE(levels),       SCENE(part),       SCENE(cube),
	SCENE(volume),    SCENE(layers),       SCENE(depth),      SCENE(stencil),
	SCENE(blend),     SCENE(logic),        SCENE(mask),       SCENE(samples),
	SCENE(targets),   SCENE(instances),    SCENE(attributes), SCENE(restart),
	SCENE(uniforms),  SCENE(compute),      SCENE(images),     SCENE(feedback),
	SCENE(geometry),  SCENE(tessellation), SCENE(points),     SCENE(lines),
	SCENE(occlusion), SCENE(conditional),  SCENE(blit),       SCENE(readback),
	SCENE(pack),      SCENE(changes),      SCENE(shadow),     SCENE(copies),
	SCENE(texels),    SCENE(indirect),     SCENE(large),      SCENE(fences),
	{NULL, NULL},
};
