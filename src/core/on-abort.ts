/**
 * One listener per signal, however many wait on it: a signal for the end of a whole process is given to thousands of
 * waits, and Node warns at the eleventh listener.
 */
const known = new WeakMap<AbortSignal, Set<() => void>>()
const running = new WeakMap<AbortSignal, () => void>()

/** Calls `fn` once when `signal` aborts. Returns a function that removes it; removing the last one removes the listener. */
export function onAbort(signal: AbortSignal, fn: () => void): () => void {
  // A separate entry, also when the same function is given twice.
  const entry = () => fn()
  let all = known.get(signal)
  if (all === undefined) {
    const set = new Set<() => void>()
    const run = () => {
      known.delete(signal)
      for (const one of [...set]) if (set.delete(one)) one()
    }
    all = set
    known.set(signal, set)
    running.set(signal, run)
    signal.addEventListener('abort', run, { once: true })
  }
  const mine = all
  mine.add(entry)
  return () => {
    if (!mine.delete(entry) || mine.size > 0 || known.get(signal) !== mine) return
    const run = running.get(signal)
    if (run !== undefined) signal.removeEventListener('abort', run)
    known.delete(signal)
  }
}
