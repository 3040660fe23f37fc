/** The conformance suite on a user's own store, one test after another, each with its own clients. */
import { conformance, type Fixture, inProcess } from 'holdfast/conformance'
import type { Driver } from 'holdfast/driver'
import type { StoreTarget } from '../connect.js'
import { lazyDriver } from './lazy-driver.js'

export interface SuiteResult {
  readonly passed: number
  readonly failed: readonly { readonly test: string; readonly why: string }[]
  readonly seconds: number
  /** Words given with `--only`; empty: the whole suite ran. */
  readonly only: readonly string[]
}

export async function runSuite(
  store: StoreTarget,
  like: Driver,
  only: readonly string[],
  print: (line: string) => void,
): Promise<SuiteResult> {
  const tests: { readonly name: string; readonly fn: () => Promise<void> }[] = []
  const path: string[] = []
  const runner = {
    describe(name: string, fn: () => void) {
      path.push(name)
      fn()
      path.pop()
    },
    it: (name: string, fn: () => Promise<void>) => {
      const whole = [...path.slice(1), name].join(': ')
      if (only.length === 0 || only.some((word) => whole.includes(word))) tests.push({ name: whole, fn })
    },
  }
  conformance(runner, createFixture(store, like))
  const failed: { test: string; why: string }[] = []
  const began = performance.now()
  for (const [i, { name, fn }] of tests.entries()) {
    print(`conformance ${i + 1} of ${tests.length}: ${name}`)
    try {
      await fn()
    } catch (error) {
      failed.push({ test: name, why: error instanceof Error ? error.message : String(error) })
    }
  }
  return { passed: tests.length - failed.length, failed, only, seconds: (performance.now() - began) / 1000 }
}

/** Connections are cut on our side: nothing is done to the store itself. */
function createFixture(store: StoreTarget, like: Driver): Fixture {
  return {
    name: store.shown,
    traits: like.traits,
    ...inProcess(() => lazyDriver(store.connect, like)),
    childClient: {
      module: new URL('./child-driver.js', import.meta.url).href,
      export: 'connectInChild',
      args: [store.url, store.insecure],
    },
    // A store across a network is slower than a local one.
    ttl: Math.max(1_000, like.traits.minTtl),
    timeout: 10_000,
    handOver: 1_000,
  }
}
