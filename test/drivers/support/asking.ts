// What driver tests ask with: claims and waits made by hand, so that the driver is tried without the core around it.
import type { Claim, Wait, WaitStatus } from '../../../src/core/driver.js'
import { exclusive } from '../../../src/core/mode.js'

let asked = 0

export function claim(name: string, more: Partial<Claim> = {}): Claim {
  asked += 1
  return {
    name,
    attempt: asked.toString(16).padStart(32, '0'),
    mode: exclusive,
    fair: true,
    ttl: 1000,
    ...more,
  }
}

export interface TestWait extends Wait {
  readonly told: WaitStatus[]
  end(): void
}

/** A wait of `ms` by word only: nothing ends it but `end()`. `ms` 0 is one attempt. */
export function waiting(ms: number = Number.POSITIVE_INFINITY): TestWait {
  const controller = new AbortController()
  const told: WaitStatus[] = []
  return {
    signal: controller.signal,
    get ended() {
      return controller.signal.aborted
    },
    remaining: () => (controller.signal.aborted ? 0 : ms),
    report: (by) => void told.push(by),
    told,
    end: () => controller.abort(),
  }
}

export const once = (): TestWait => waiting(0)

export const never: AbortSignal = new AbortController().signal
