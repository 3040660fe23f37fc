/**
 * `@UseLock(name)` on a method of an injectable class. Nest's `@Inject()` on a property does no more than note the property
 * and its token in the class's metadata; the same is noted here, so that Nest puts the locks into each object it makes.
 */
import {
  type LockedMethod,
  type LockedOptions,
  type LockName,
  locked,
  type Mutexes,
} from 'holdfast/decorators'
import { LOCKS } from './module.js'

const slot: unique symbol = Symbol('holdfast locks')
/** Where Nest keeps what `@Inject()` on properties noted. */
const recordedTypes = 'self:properties_metadata'

interface WithLocks {
  [slot]?: Mutexes
}
interface Metadata {
  getMetadata(key: string, target: object): { key: unknown; type: unknown }[] | undefined
  defineMetadata(key: string, value: unknown, target: object): void
}

/** A decorator of TypeScript's older kind (`experimentalDecorators`), the only one that Nest's own are made for. */
type MethodDecoratorOf<Args extends unknown[]> = <T extends LockedMethod<Args>>(
  prototype: object,
  key: string | symbol,
  descriptor: TypedPropertyDescriptor<T>,
) => void
type SkippingDecoratorOf<Args extends unknown[]> = <T extends LockedMethod<Args>>(
  prototype: object,
  key: string | symbol,
  descriptor: undefined extends Awaited<ReturnType<T>> ? TypedPropertyDescriptor<T> : never,
) => void

/**
 * The method runs under a mutex of the injected locks. Arguments as for `locked` in `holdfast/decorators`.
 * @throws TypeError where it decorates no method of a class, and without reflect-metadata, which Nest loads
 */
export function UseLock<Args extends unknown[] = []>(
  name: LockName<Args>,
  options: LockedOptions & { readonly whenHeld: 'skip' },
): SkippingDecoratorOf<Args>
export function UseLock<Args extends unknown[] = []>(
  name: LockName<Args>,
  options?: LockedOptions & { readonly whenHeld?: 'wait' },
): MethodDecoratorOf<Args>
export function UseLock<Args extends unknown[]>(
  name: LockName<Args>,
  options?: LockedOptions,
): MethodDecoratorOf<Args> {
  const decorate = locked(getLocks, name, options as LockedOptions & { whenHeld?: 'wait' })
  return (prototype, key, descriptor) => {
    if (typeof descriptor !== 'object')
      throw new TypeError('@UseLock decorates methods, compiled with experimentalDecorators as all of Nest')
    decorate(prototype, key, descriptor)
    recordType(prototype.constructor)
  }
}

function getLocks(self: object): Mutexes {
  const locks = (self as WithLocks)[slot]
  if (locks !== undefined) return locks
  throw new TypeError(
    `${self.constructor.name} has a method with @UseLock but was given no locks; import HoldfastModule.forRoot() and let Nest make the object`,
  )
}

function recordType(type: object): void {
  const { getMetadata, defineMetadata } = Reflect as unknown as Partial<Metadata>
  if (getMetadata === undefined || defineMetadata === undefined)
    throw new TypeError("@UseLock needs reflect-metadata; import 'reflect-metadata' first, as Nest does")
  const before = getMetadata(recordedTypes, type) ?? []
  if (before.some(({ key }) => key === slot)) return
  defineMetadata(recordedTypes, [...before, { key: slot, type: LOCKS }], type)
}
