/** Examines the set-up of a store within seconds, or says why it cannot. */
import type { StoreTarget } from '../connect.js'
import { CliError } from '../exit.js'
import { explain, probe, unusable } from '../explain.js'
import { OtherServer, orOtherServer } from '../other-server.js'
import type { Check } from '../setup/check.js'
import { checkSetup } from '../setup/setup.js'

/** The time limit for everything, in ms. */
const timeLimit = 15_000

/** @throws CliError: the store cannot be used */
export async function examine(store: StoreTarget): Promise<Check[]> {
  await probe(store)
  try {
    const checks = await orOtherServer(store, withinTime(checkSetup(store.url)))
    const [first] = checks
    if (first !== undefined && checks.every(({ verdict }) => verdict === 'not checked'))
      throw unusable(`${first.found}${first.remedy === undefined ? '' : `: ${first.remedy}`}`, store)
    return checks
  } catch (error) {
    throw await explain(unwrapError(error), store)
  }
}

/** The checks ask with clients of their own, whose errors have no code of this library. A TypeError is a bug in this program. */
function unwrapError(error: unknown): unknown {
  const own = error instanceof CliError || error instanceof OtherServer || error instanceof TypeError
  if (own || !(error instanceof Error)) return error
  const message = error.message || String((error as { code?: unknown }).code)
  return Object.assign(new Error(message, { cause: error }), { code: 'BACKEND' })
}

async function withinTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeLimit / 1_000} s`)), timeLimit)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
