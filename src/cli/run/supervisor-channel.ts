/** The keeper's end of the channel: the front's messages as promises. */
import type { Claim, ToFront, ToKeeper } from './messages.js'

export interface Front {
  readonly claim: Promise<Claim | undefined>
  readonly started: Promise<number | undefined>
  readonly ended: Promise<void>
  readonly cancelled: AbortSignal
  /** The front will send nothing more. */
  readonly gone: AbortSignal
  tell(message: ToFront): void
}

export function listen(): Front {
  const cancel = new AbortController()
  const gone = new AbortController()
  const heard = new Map<ToKeeper['type'], (message: never) => void>()
  const once = <M extends ToKeeper>(type: M['type']) =>
    new Promise<M | undefined>((resolve) => {
      heard.set(type, resolve as (message: never) => void)
      gone.signal.addEventListener('abort', () => resolve(undefined))
    })
  heard.set('cancel', () => cancel.abort())
  process.on('message', (message: ToKeeper) => heard.get(message.type)?.(message as never))
  process.on('disconnect', () => {
    cancel.abort()
    gone.abort()
  })
  return {
    claim: once<Claim>('claim'),
    started: once<Extract<ToKeeper, { type: 'started' }>>('started').then((message) => message?.group),
    ended: once('ended').then(() => undefined),
    cancelled: cancel.signal,
    gone: gone.signal,
    // The front may be gone at any moment; `disconnect` reports it.
    tell: (message) => void (process.connected && process.send?.(message, () => undefined)),
  }
}
