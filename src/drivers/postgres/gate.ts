/**
 * Limits how many waiter requests are in flight at once. Otherwise a process with thousands of waiters would fill its connections so far
 * ahead that the last request is given up before the server gets to it. A request given up before its turn costs nothing.
 */
export interface Gate {
  /** @param start called when there is room; returns undefined if the request is no longer needed */
  enter(start: () => Promise<unknown> | undefined): void
}

export function createGate(most: number): Gate {
  const queue = new Set<() => Promise<unknown> | undefined>()
  let open = 0
  const left = () => {
    open--
    for (const start of queue) {
      if (open >= most) return
      queue.delete(start)
      begin(start)
    }
  }
  const begin = (start: () => Promise<unknown> | undefined) => {
    const work = start()
    if (work === undefined) return
    open++
    work.then(left, left)
  }
  return {
    enter(start) {
      if (open < most) begin(start)
      else queue.add(start)
    },
  }
}
