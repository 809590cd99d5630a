// Calls into a library, so that no exception leaves it. A library with curricle.hpp catches its own; this is for
// those that use curricle.h directly.
//
// `work` is a Rust function that unwinding may pass through; on failure the message goes to `fail`, which copies it.

#include <c10/util/Exception.h>

#include <cstdint>
#include <exception>

using Fail = void (*)(void *error, bool is_torch, const char *message);

extern "C" void curricle_sdk_protect(void (*work)(void *context), void *context, void *error, Fail fail) {
  try {
    work(context);
  } catch (const c10::Error &thrown) {
    fail(error, true, thrown.what_without_backtrace());
  } catch (const std::exception &thrown) {
    fail(error, false, thrown.what());
  } catch (...) {
    fail(error, false, "threw something that is not an exception");
  }
}
