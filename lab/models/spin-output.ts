/** What the program that walks through a model writes, read. */

export interface SpinOutput {
  /** See `Answer.verdict`. */
  readonly verdict: string
  /** It found an error, and the way to it. */
  readonly broken: boolean
  readonly states: number
  readonly megabytes: number
}

/** Whatever keeps a walk from having seen every state. */
const endedEarly = [
  /max search depth too small/,
  /reached -DMEMLIM bound/,
  /out of memory/,
  /VECTORSZ is too small/,
  /pan: no end after .*/,
  /time limit|timeout/i,
]

/** @param asks `safety` or the name of the formula that was asked for */
export function parseVerdict(output: string, asks: string): SpinOutput {
  const states = Number(/^\s*([\d.e+]+) states, stored/m.exec(output)?.[1] ?? 0)
  const megabytes = Number(/^\s*([\d.]+)\s+total actual memory usage/m.exec(output)?.[1] ?? 0)
  const found = findBroken(output, asks)
  if (found !== undefined) return { verdict: found, broken: true, states, megabytes }
  const early = endedEarly.find((pattern) => pattern.test(output))
  const whole = /errors: 0$/m.test(output) && states > 0
  const verdict = early ? `unfinished: ${early.exec(output)?.[0]}` : whole ? 'holds' : 'unfinished: no result'
  return { verdict, broken: false, states, megabytes }
}

function findBroken(output: string, asks: string): string | undefined {
  const error =
    /^pan:\d+: (assertion violated (.+?)|invalid end state|acceptance cycle|.+?) \(at depth -?\d+\)/m.exec(
      output,
    )
  if (error === null) return undefined
  const [, what = '', property] = error
  if (property !== undefined) return property.replace(/^\((\w+)\)$/, '$1')
  if (what === 'invalid end state') return 'deadlock'
  return what === 'acceptance cycle' ? asks : what
}

/** The events of a replay, each once, from the beginning to the error. */
export function parseTrail(replayed: string): string[] {
  const story: string[] = []
  for (const raw of replayed.split('\n')) {
    const line = raw.trim()
    if (line.startsWith('spin: trail ends') || line.startsWith('pan:')) break
    if (line === '' || line.startsWith('MSC: ~G') || line.startsWith('warning:')) continue
    if (line.includes('START OF CYCLE')) story.push('... and from here on for ever:')
    else if (line !== story.at(-1)) story.push(line)
  }
  if (story.at(-1)?.startsWith('...')) story[story.length - 1] = '... and nothing else happens any more'
  return story
}
