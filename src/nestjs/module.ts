/**
 * A dynamic module of NestJS, by its shape: nothing of Nest is loaded. Nest calls `onApplicationShutdown` on what a
 * provider made, after everything that uses it has been told to stop.
 */
import { createLocks, type Defaults, type DriverFactory, type Locks } from 'holdfast'

/** Inject it: `constructor(@Inject(LOCKS) private readonly locks: Locks)`. A string, so that two copies of this package agree. */
export const LOCKS = 'holdfast:locks'

export interface HoldfastModuleOptions {
  /** `redis({ client })`, `local()`, … */
  readonly driver: DriverFactory
  readonly defaults?: Defaults
}

/** As much of Nest's Provider as is made here. */
export type NestProvider =
  | { readonly provide: string; readonly useValue: unknown }
  | {
      readonly provide: string
      readonly useFactory: (...args: never[]) => unknown
      readonly inject?: never[]
    }

/** As much of Nest's DynamicModule as is made here. */
export interface NestModule {
  readonly module: typeof HoldfastModule
  readonly global: boolean
  readonly imports?: never[]
  readonly providers: NestProvider[]
  readonly exports: string[]
}

const OPTIONS = 'holdfast:options'
const CLOSER = 'holdfast:closer'

// biome-ignore lint/complexity/noStaticOnlyClass: Nest knows modules by their class
export class HoldfastModule {
  /** @param options with `global: false` only modules that import this one see the locks */
  static forRoot({
    global = true,
    ...options
  }: HoldfastModuleOptions & { readonly global?: boolean }): NestModule {
    return moduleWith({ provide: OPTIONS, useValue: options }, global)
  }

  /** With options that other providers are needed for: `{ inject: [REDIS], useFactory: (client) => ({ driver: redis({ client }) }) }`. */
  static forRootAsync<Args extends unknown[]>({
    useFactory,
    inject = [],
    imports = [],
    global = true,
  }: {
    readonly useFactory: (...args: Args) => HoldfastModuleOptions | Promise<HoldfastModuleOptions>
    readonly inject?: readonly unknown[]
    readonly imports?: readonly unknown[]
    readonly global?: boolean
  }): NestModule {
    // Nest types these lists by unions of its own; whatever it takes is passed on as it is.
    const provider = { provide: OPTIONS, useFactory, inject: inject as never[] }
    return { ...moduleWith(provider, global), imports: imports as never[] }
  }
}

function moduleWith(options: NestProvider, global: boolean): NestModule {
  const make = ({ driver, defaults }: HoldfastModuleOptions) => {
    if (defaults !== undefined && (typeof defaults !== 'object' || defaults === null))
      throw new TypeError(
        `defaults must be an object of options, such as { wait: 5_000 }, got ${JSON.stringify(defaults)}`,
      )
    return createLocks(driver, defaults)
  }
  return {
    module: HoldfastModule,
    global,
    providers: [
      options,
      { provide: LOCKS, useFactory: make, inject: [OPTIONS] as never[] },
      // Its own provider: a test that overrides LOCKS by something else still shuts down.
      { provide: CLOSER, useFactory: closer, inject: [LOCKS] as never[] },
    ],
    exports: [LOCKS],
  }
}

function closer(locks: Locks): { onApplicationShutdown(): Promise<void> } {
  return {
    async onApplicationShutdown() {
      await locks.close?.()
    },
  }
}
