/* tests/fuzz/replay.h - a main() that runs a fuzz target over the files given as arguments. */
static int replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    tr_buf b = {0};
    char part[4096];
    if (!f) {
        perror(path);
        return 1;
    }
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        if (!tr_buf_put(&b, part, n)) abort();
    fclose(f);
    /* A copy of the exact size: a sanitizer sees reads behind it. */
    uint8_t *exact = malloc(b.n ? b.n : 1);
    if (!exact) abort();
    if (b.n) memcpy(exact, b.p, b.n);
    LLVMFuzzerTestOneInput(exact, b.n);
    free(exact);
    tr_buf_free(&b);
    return 0;
}

int main(int argc, char **argv) {
    int failed = 0;
    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        int bad = replay_file(argv[i]);
        printf("%sok %d - %s\n", bad ? "not " : "", i, argv[i]);
        failed |= bad;
    }
    return failed;
}
