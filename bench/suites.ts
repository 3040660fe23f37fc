import type { Figure } from './figure.js'
import type { Scale } from './suite.js'
import { measureLocal } from './suites/local.js'
import { measureMemory } from './suites/memory.js'

export type SuiteName = 'memory' | 'local'

export const suites: Readonly<Record<SuiteName, (scale: Scale) => Promise<readonly Figure[]>>> = {
  memory: measureMemory,
  local: measureLocal,
}

export function isSuite(word: string): word is SuiteName {
  return Object.hasOwn(suites, word)
}
