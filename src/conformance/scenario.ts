/** One script for every driver, and one set of answers. Drivers declare their deviations: `scenario/differences.ts`. */
import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import { chapters } from './scenario/chapters.js'
import { type PromiseCell, toCell } from './scenario/column.js'
import { declaredBy } from './scenario/differences.js'
import { type Answer, type Chapter, play } from './scenario/story.js'
import type { It } from './suite.js'
import { TestContext } from './test-context.js'

export function scenario(it: It, fixture: Fixture): void {
  const cells = new Map<Chapter, Promise<PromiseCell>>()
  const cellOf = (chapter: Chapter, context: TestContext) => {
    const cell = runChapter(chapter, context)
    cells.set(chapter, cell)
    return cell
  }
  for (const chapter of chapters) {
    it(chapter.promise, async (context) => {
      const { wrong } = await cellOf(chapter, context)
      assert.deepEqual(wrong, [], 'it is not answered as everywhere else')
    })
  }
  const { promises, name } = fixture
  if (promises === undefined) return

  it('makes the column that the fixture expects', async () => {
    const column: PromiseCell[] = []
    for (const chapter of chapters)
      column.push(await (cells.get(chapter) ?? withContext(fixture, (context) => cellOf(chapter, context))))
    await promises({ name, cells: column })
  })
}

async function runChapter(chapter: Chapter, context: TestContext): Promise<PromiseCell> {
  const { driver } = context.client()
  return toCell(chapter.promise, await play(chapter, context), declaredBy(driver, context.fixture))
}

/** The answers of each chapter, in order: for the transcript that all drivers are compared with. */
export async function collectAnswers(fixture: Fixture): Promise<ReadonlyMap<string, readonly Answer[]>> {
  const told = new Map<string, readonly Answer[]>()
  for (const chapter of chapters)
    told.set(chapter.promise, await withContext(fixture, (context) => play(chapter, context)))
  return told
}

async function withContext<T>(fixture: Fixture, use: (context: TestContext) => Promise<T>): Promise<T> {
  const context = new TestContext(fixture)
  try {
    return await use(context)
  } finally {
    await context.close()
  }
}
