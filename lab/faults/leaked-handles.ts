/** A lab that has finished ends its process, too, unless something was left open: then it reports what. */
import { ChildProcess } from 'node:child_process'
import { Server, Socket } from 'node:net'
import '../../test/support/end-at-once.js'

/** Sockets and processes that are closing need less, in ms. */
const closeTimeout = 20_000

/** Call it at the very end. Anything that still keeps the process alive after a while is reported, as an error. */
export function reportLeakedHandles(): void {
  const late = () => {
    console.error(`faults: the process does not end; left open: ${leakedHandles().join(', ')}`)
    process.exit(1)
  }
  setTimeout(late, closeTimeout).unref()
}

function leakedHandles(): string[] {
  // The kind of each, and details of those that Node reports, though through an undocumented function.
  const { _getActiveHandles: handles } = process as { _getActiveHandles?: () => readonly object[] }
  return [...process.getActiveResourcesInfo(), ...(handles?.call(process) ?? []).map(shown)]
}

function shown(handle: object): string {
  if (handle instanceof ChildProcess)
    return `process ${handle.pid} (${handle.spawnfile}, ${handle.exitCode ?? handle.signalCode ?? 'running'})`
  if (handle instanceof Socket)
    return `socket ${handle.localPort} to ${handle.remotePort} (${handle.readyState})`
  if (handle instanceof Server) return `server at ${JSON.stringify(handle.address())}`
  return handle.constructor.name
}
