import { type AcquireOptions, AcquireTimeoutError, type Lock } from 'holdfast'
import { runLocked } from './run.js'

/** The lock's name, or what makes it of the method's first arguments. */
export type LockName<Args extends unknown[]> = string | ((...args: Args) => string)

export interface LockedOptions extends AcquireOptions {
  /** When the lock is not free: wait for it, or resolve with `undefined` without running the method. @default 'wait' */
  readonly whenHeld?: 'wait' | 'skip'
}

/** What is needed of `createLocks(driver)`. */
export interface Mutexes {
  mutex(name: string): Lock
}

/** A method whose first arguments are these. */
export type LockedMethod<Args extends unknown[]> = (...args: [...Args, ...never[]]) => Promise<unknown>

/** One decorator for both kinds: the standard's (method, context) and TypeScript's older (prototype, key, descriptor). */
export interface LockedDecorator<Args extends unknown[]> {
  <T extends LockedMethod<Args>>(method: T, context: ClassMethodDecoratorContext): T
  <T extends LockedMethod<Args>>(
    prototype: object,
    key: string | symbol,
    descriptor: TypedPropertyDescriptor<T>,
  ): void
}

/** The same for methods that may resolve with `undefined`. */
export interface SkippingDecorator<Args extends unknown[]> {
  <T extends LockedMethod<Args>>(
    method: T,
    context: undefined extends Awaited<ReturnType<T>> ? ClassMethodDecoratorContext : never,
  ): T
  <T extends LockedMethod<Args>>(
    prototype: object,
    key: string | symbol,
    descriptor: undefined extends Awaited<ReturnType<T>> ? TypedPropertyDescriptor<T> : never,
  ): void
}

/**
 * The method runs under a mutex, one call at a time wherever the locks reach; inside it `currentLease()` is the lease.
 * A call of a locked method of the same lock from inside rejects with DeadlockError, or enters again with `reentrant: true`.
 * The method rejects as `lock.run` does.
 * @param locks from `createLocks(driver)`, or what finds them, given the object, when the method is called
 * @throws TypeError for bad options, and where it decorates no method
 */
export function locked<Args extends unknown[] = []>(
  locks: Mutexes | ((self: object) => Mutexes),
  name: LockName<Args>,
  options: LockedOptions & { readonly whenHeld: 'skip' },
): SkippingDecorator<Args>
export function locked<Args extends unknown[] = []>(
  locks: Mutexes | ((self: object) => Mutexes),
  name: LockName<Args>,
  options?: LockedOptions & { readonly whenHeld?: 'wait' },
): LockedDecorator<Args>
export function locked<Args extends unknown[]>(
  locks: Mutexes | ((self: object) => Mutexes),
  name: LockName<Args>,
  { whenHeld = 'wait', ...options }: LockedOptions = {},
): LockedDecorator<Args> {
  if (whenHeld !== 'wait' && whenHeld !== 'skip')
    throw new TypeError(`whenHeld must be 'wait' or 'skip', got ${JSON.stringify(whenHeld)}`)
  if (whenHeld === 'skip' && options.wait !== undefined)
    throw new TypeError("whenHeld: 'skip' makes one attempt and takes no wait")
  const wrap = (method: LockedMethod<Args>) =>
    async function (this: object, ...args: [...Args, ...never[]]): Promise<unknown> {
      const lock = (typeof locks === 'function' ? locks(this) : locks).mutex(
        typeof name === 'string' ? name : name(...(args as unknown as Args)),
      )
      const call = () => method.apply(this, args)
      return whenHeld === 'wait' ? runLocked(lock, call, options) : skipIfHeld(lock, call, options)
    }
  return ((target: unknown, _: unknown, descriptor?: { value?: unknown }) => {
    const method = descriptor === undefined ? target : descriptor.value
    if (typeof method !== 'function')
      throw new TypeError('locked decorates methods only; apply it to a method')
    const wrapped = wrap(method as LockedMethod<Args>)
    Object.defineProperty(wrapped, 'name', { value: method.name, configurable: true })
    copyMetadata(method, wrapped)
    if (descriptor === undefined) return wrapped
    descriptor.value = wrapped
    return undefined
  }) as LockedDecorator<Args>
}

/** As `lock.run`, but one attempt, and `undefined` when that found it held. */
async function skipIfHeld<R>(
  lock: Lock,
  call: () => Promise<R>,
  options: AcquireOptions,
): Promise<R | undefined> {
  let began = false
  const begin = () => {
    began = true
    return call()
  }
  try {
    return await runLocked(lock, begin, { ...options, wait: 0 })
  } catch (error) {
    if (!began && error instanceof AcquireTimeoutError) return undefined
    throw error
  }
}

/** Of `reflect-metadata`, as far as it is used. */
interface Metadata {
  getOwnMetadataKeys(target: object): unknown[]
  getOwnMetadata(key: unknown, target: object): unknown
  defineMetadata(key: unknown, value: unknown, target: object): void
}

/**
 * Decorators that were applied before have noted on the method itself what they mean, as Nest's routes and guards do:
 * a wrapper without these notes would be called without those guards.
 */
function copyMetadata(from: object, to: object): void {
  const { getOwnMetadataKeys, getOwnMetadata, defineMetadata } = Reflect as unknown as Partial<Metadata>
  if (!getOwnMetadataKeys || !getOwnMetadata || !defineMetadata) return
  for (const key of getOwnMetadataKeys(from)) defineMetadata(key, getOwnMetadata(key, from), to)
}
