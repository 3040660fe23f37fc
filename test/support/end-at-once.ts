// Ends the process at the event `exit`. After that event Node 20 frees its environment, and once looped for ever in `CleanupHandles`,
// waiting for a request that was not in its event loop any more: the run had reported everything and hung. Writes to pipes and files are
// synchronous, so nothing is lost.
process.once('exit', (code) => (process as unknown as { reallyExit(code: number): never }).reallyExit(code))
