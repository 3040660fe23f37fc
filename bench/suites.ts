import type { Figure } from './figure.js'
import type { Scale } from './suite.js'
import { measureMemory } from './suites/memory.js'

export type SuiteName = 'memory'

export const suites: Readonly<Record<SuiteName, (scale: Scale) => Promise<readonly Figure[]>>> = {
  memory: measureMemory,
}

export function isSuite(word: string): word is SuiteName {
  return Object.hasOwn(suites, word)
}
