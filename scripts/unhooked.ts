// Loaded before every test file (see test.ts): keeps Node's test runner from following each promise that the tests make.
//
// It does so to know which test an error belongs to that nobody caught, and pays for it with ten microseconds of a processor for
// every `await`, a quarter of what some files need. Without it such an error still fails its file, and is told with it; only
// which test of the file made it is not. Others who make hooks get what they ask for.
import hooks from 'node:async_hooks'

const { createHook } = hooks
const unhooked: typeof createHook = (callbacks) => createHook(isForRunner() ? {} : callbacks)
Object.assign(hooks, { createHook: unhooked })

function isForRunner(): boolean {
  return new Error().stack?.includes('node:internal/test_runner/') === true
}
