/** The lock process's end of the channel: the supervisor's messages as promises. */
import type { RunRequest, ToLockProcess, ToSupervisor } from './messages.js'

export interface SupervisorChannel {
  readonly claim: Promise<RunRequest | undefined>
  readonly started: Promise<number | undefined>
  readonly ended: Promise<void>
  readonly cancelled: AbortSignal
  /** The supervisor will send nothing more. */
  readonly gone: AbortSignal
  send(message: ToSupervisor): void
}

export function listen(): SupervisorChannel {
  const cancel = new AbortController()
  const gone = new AbortController()
  const handlers = new Map<ToLockProcess['type'], (message: never) => void>()
  const once = <M extends ToLockProcess>(type: M['type']) =>
    new Promise<M | undefined>((resolve) => {
      handlers.set(type, resolve as (message: never) => void)
      gone.signal.addEventListener('abort', () => resolve(undefined))
    })
  handlers.set('cancel', () => cancel.abort())
  process.on('message', (message: ToLockProcess) => handlers.get(message.type)?.(message as never))
  process.on('disconnect', () => {
    cancel.abort()
    gone.abort()
  })
  return {
    claim: once<RunRequest>('claim'),
    started: once<Extract<ToLockProcess, { type: 'started' }>>('started').then((message) => message?.group),
    ended: once('ended').then(() => undefined),
    cancelled: cancel.signal,
    gone: gone.signal,
    // The supervisor may be gone at any moment; `disconnect` reports it.
    send: (message) => void (process.connected && process.send?.(message, () => undefined)),
  }
}
