/** One chapter of the scenario in progress: three clients, and a record of every answer, without times. */
import type { Lease } from 'holdfast'
import type { Client } from '../client.js'
import type { TestContext } from '../test-context.js'

/** What a client requested or looked at, and the result. */
export interface Answer {
  readonly what: string
  readonly got: string
}

/** One promise of the contract, as a sequence of actions. */
export interface Chapter {
  /** Short enough for a table row. */
  readonly promise: string
  play(story: Story): Promise<void>
}

/** Nothing can follow in this chapter: what it needs was refused. */
class ChapterEnds extends Error {}

export class Story {
  readonly context: TestContext
  /** The lock under test. */
  readonly name: string
  readonly a: Client
  readonly b: Client
  readonly c: Client
  readonly answers: Answer[] = []

  constructor(context: TestContext) {
    this.context = context
    this.name = context.name('scenario')
    this.a = context.client()
    this.b = context.client()
    this.c = context.client()
  }

  /** Records an observation. */
  note(what: string, seen: unknown): void {
    this.answers.push({ what, got: describeAnswer(seen) })
  }

  /** Runs a request, and records the answer or the error. */
  async ask<T>(what: string, ask: () => T | PromiseLike<T>): Promise<T | undefined> {
    try {
      const answer = await ask()
      this.note(what, answer)
      return answer
    } catch (error) {
      if (error instanceof ChapterEnds) throw error
      this.note(what, error)
      return undefined
    }
  }

  /** As `ask`, for results the rest of the chapter needs: without one the chapter ends here. */
  async need<T>(what: string, ask: () => T | PromiseLike<T>): Promise<NonNullable<T>> {
    const answer = await this.ask(what, ask)
    if (answer === undefined || answer === null) throw new ChapterEnds()
    return answer
  }

  /** Ends the chapter after the last record. */
  end(): never {
    throw new ChapterEnds()
  }

  /** Resolves once both the loss event and the signal have arrived, with the reported causes. */
  loss(client: Client, { signal }: Lease): { told(within: number): Promise<readonly string[]> } {
    const causes: string[] = []
    client.locks.on('lost', ({ why }) => causes.push(why))
    const told = async (within: number) => {
      await this.context.until('signal and event', () => signal.aborted && causes.length > 0, within)
      return causes
    }
    return { told }
  }
}

/** Plays one chapter. A failure is an answer, too: one that is never expected. */
export async function play(chapter: Chapter, context: TestContext): Promise<readonly Answer[]> {
  const story = new Story(context)
  try {
    await context.connected(story.a, story.b, story.c)
    await chapter.play(story)
  } catch (error) {
    if (!(error instanceof ChapterEnds)) story.note('the chapter fails', String(error))
  }
  return story.answers
}

function describeAnswer(answer: unknown): string {
  if (answer instanceof Error) return describeError(answer)
  if (Array.isArray(answer)) return answer.length === 0 ? 'none' : answer.map(describeAnswer).join(', ')
  if (isLease(answer)) return 'a lease'
  if (typeof answer === 'object' && answer !== null) return 'made'
  return String(answer)
}

/** Name and code are the same everywhere. The message is not, unless it is the caller's own. */
function describeError(error: Error & { readonly code?: unknown; readonly why?: unknown }): string {
  const { name, code, why, message } = error
  if (code === undefined) return /^(Range|Type)Error$/.test(name) ? name : `${name}: ${message}`
  return [name, code, why].filter((part) => part !== undefined).join(' ')
}

function isLease(answer: unknown): answer is Lease {
  return typeof answer === 'object' && answer !== null && 'token' in answer && 'release' in answer
}
