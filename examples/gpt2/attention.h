/* The attention of a GPT-2 of several layers, forward and backward, by lssar's C API. */
#ifndef LSSAR_EXAMPLES_GPT2_ATTENTION_H_
#define LSSAR_EXAMPLES_GPT2_ATTENTION_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef struct attention attention;

/* device: "cpu" or "virtual". p: the power of LSSAR; 0: LSSA. Every call has `batch` sequences of
 * `length` tokens. Exits with the library's message where something fails, as the others do. */
attention* attention_new(const char* device, int p, int layers, int batch, int length, int heads,
                         int head_dim);
void attention_free(attention* a);

/* qkv [batch, length, 3, heads, head_dim], o [batch, length, heads, head_dim]; aligned to 16 bytes.
 * Keeps what the backward of this layer needs, and so does the caller: it must not change qkv. */
void attention_forward(attention* a, int layer, float* qkv, float* o);

/* Overwrites grad_qkv with the gradient of the layer's last forward. */
void attention_backward(attention* a, int layer, float* grad_o, float* grad_qkv);

#ifdef __cplusplus
}
#endif
#endif /* LSSAR_EXAMPLES_GPT2_ATTENTION_H_ */
