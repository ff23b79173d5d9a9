-- scripts/demo/project.lua - the project that `terret demo` makes: a small C library that reads
-- durations, its test, and one bug (the digits of a unit are still there at the next one).

local M = {}

---What the user asks for.
M.prompt = "The test fails. Find out why and mend the library."

---How the project is tested, and what the model runs.
M.test = "./run-tests.sh"

---@type table<string, string> path -> content
M.files = {}

M.files["duration.h"] = [[
/* duration.h - durations as people write them. */
#ifndef DURATION_H
#define DURATION_H

/* "45s", "1h30m" in seconds; -1 when text is no duration. */
long duration_parse(const char *text);

#endif
]]

M.files["duration.c"] = [[
/* duration.c - durations as people write them. */
#include "duration.h"

#include <ctype.h>

static long unit_seconds(char unit) {
    switch (unit) {
    case 'h': return 3600;
    case 'm': return 60;
    case 's': return 1;
    default: return -1;
    }
}

long duration_parse(const char *text) {
    long total = 0, number = 0;
    for (; *text; text++) {
        if (isdigit((unsigned char)*text)) {
            number = number * 10 + (*text - '0');
            continue;
        }
        long unit = unit_seconds(*text);
        if (unit < 0) return -1;
        total += number * unit;
    }
    return total;
}
]]

M.files["test_duration.c"] = [[
#include "duration.h"

#include <stdio.h>

static int failures;

static void check(const char *text, long expected) {
    long got = duration_parse(text);
    printf("%s %s = %ld", got == expected ? "ok" : "FAIL", text, got);
    if (got != expected) {
        printf(", expected %ld", expected);
        failures++;
    }
    printf("\n");
}

int main(void) {
    check("45s", 45);
    check("1h30m", 5400);
    check("3x", -1);
    return failures > 0;
}
]]

M.files["run-tests.sh"] = [[
#!/bin/sh
set -e
${CC:-cc} -std=c99 -Wall -Wextra -o test_duration duration.c test_duration.c
./test_duration
]]

return M
