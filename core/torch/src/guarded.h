// What the C++ files here share: failures become messages.

#pragma once

#include <c10/util/Exception.h>
#include <cstring>
#include <exception>

// Runs `work`; returns null or, on failure, libtorch's message in memory from malloc.
template <typename Work> char *guarded(Work work) {
  try {
    work();
    return nullptr;
  } catch (const c10::Error &error) {
    return strdup(error.what_without_backtrace());
  } catch (const std::exception &error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("an unknown C++ exception");
  }
}
