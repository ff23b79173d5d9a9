/* runtime/embedded.h - the table that runtime/embed.c generates and runtime/main.c reads. */
#include <stddef.h>

struct tr_embedded {
    const char *name; /* as in the source tree: "scripts/task.lua" */
    const char *text;
    size_t size;
    const char *code; /* bytecode of a script; size 0: none */
    size_t code_size;
    const char *sha256; /* of the text */
};
extern const struct tr_embedded tr_embedded_files[]; /* ends with a NULL name */
