/** What the specification does with the arguments of `request` before any lock is requested: §3.2.1, and Web IDL's conversions. */
import type { GrantedLock, LockMode } from './types.js'

export interface LockRequest {
  readonly name: string
  readonly mode: LockMode
  readonly ifAvailable: boolean
  readonly steal: boolean
  readonly signal: AbortSignal | undefined
  readonly callback: (lock: GrantedLock | null) => unknown
}

/** @throws TypeError, a DOMException, or the reason of a signal that is already aborted */
export function readArguments(args: readonly unknown[]): LockRequest {
  if (args.length < 2)
    throw new TypeError(`request(name, options?, callback) takes 2 or 3 arguments, got ${args.length}`)
  const name = toName(args[0])
  const options = args.length === 2 ? {} : toDictionary(args[1])
  const callback = args.length === 2 ? args[1] : args[2]
  if (typeof callback !== 'function')
    throw new TypeError(`request: the last argument must be a function, got ${kind(callback)}`)
  // In the order of their names, as Web IDL reads them: a getter might reveal the order.
  const ifAvailable = Boolean(options.ifAvailable)
  const mode = toMode(options.mode)
  const signal = toSignal(options.signal)
  const steal = Boolean(options.steal)
  const asked = { name, mode, ifAvailable, steal, signal, callback: callback as LockRequest['callback'] }
  refuse(asked)
  signal?.throwIfAborted()
  return asked
}

function refuse({ name, mode, ifAvailable, steal, signal }: LockRequest): void {
  if (name.startsWith('-'))
    throw notSupported("a lock's name must not begin with '-': such names are reserved")
  if (steal && ifAvailable) throw notSupported('steal and ifAvailable exclude each other')
  if (steal && mode !== 'exclusive')
    throw notSupported("steal takes the lock for itself: mode must be 'exclusive'")
  if (signal !== undefined && (steal || ifAvailable))
    throw notSupported('signal cancels a wait, and steal and ifAvailable do not wait: leave it out')
}

export function notSupported(message: string, cause?: unknown): DOMException {
  return exception(message, 'NotSupportedError', cause)
}

export function abortError(message: string, cause?: unknown): DOMException {
  return exception(message, 'AbortError', cause)
}

function exception(message: string, name: string, cause: unknown): DOMException {
  const error = new DOMException(message, name)
  if (cause !== undefined)
    Object.defineProperty(error, 'cause', { value: cause, configurable: true, writable: true })
  return error
}

function toName(name: unknown): string {
  if (typeof name === 'symbol') throw new TypeError('request: name must be a string, got a symbol')
  return String(name)
}

function toDictionary(value: unknown): Readonly<Record<string, unknown>> {
  if (value === undefined || value === null) return {}
  if (typeof value === 'object' || typeof value === 'function')
    return value as Readonly<Record<string, unknown>>
  throw new TypeError(`request: options must be an object, got ${kind(value)}`)
}

function toMode(mode: unknown): LockMode {
  if (mode === undefined) return 'exclusive'
  const word = toName(mode)
  if (word === 'exclusive' || word === 'shared') return word
  throw new TypeError(`request: mode must be 'exclusive' or 'shared', got ${JSON.stringify(word)}`)
}

function toSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal
  throw new TypeError(`request: signal must be an AbortSignal, got ${kind(signal)}`)
}

function kind(value: unknown): string {
  return value === null ? 'null' : typeof value
}
