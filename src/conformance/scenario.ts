/** One script for every driver, and one set of answers. Drivers declare their deviations: `scenario/differences.ts`. */
import assert from 'node:assert/strict'
import type { Fixture } from './fixture.js'
import { chapters } from './scenario/chapters.js'
import { judge, type PromiseCell } from './scenario/column.js'
import { declaredBy } from './scenario/differences.js'
import { type Answer, type Chapter, play } from './scenario/story.js'
import type { It } from './suite.js'
import { TestContext } from './test-context.js'

export function scenario(it: It, fixture: Fixture): void {
  const cells = new Map<Chapter, Promise<PromiseCell>>()
  const cellOf = (chapter: Chapter, stage: TestContext) => {
    const cell = judged(chapter, stage)
    cells.set(chapter, cell)
    return cell
  }
  for (const chapter of chapters) {
    it(chapter.promise, async (stage) => {
      const { wrong } = await cellOf(chapter, stage)
      assert.deepEqual(wrong, [], 'it is not answered as everywhere else')
    })
  }
  const { promises, name } = fixture
  if (promises === undefined) return

  it('makes the column that the fixture expects', async () => {
    const column: PromiseCell[] = []
    for (const chapter of chapters)
      column.push(await (cells.get(chapter) ?? onOwnStage(fixture, (stage) => cellOf(chapter, stage))))
    await promises({ name, cells: column })
  })
}

async function judged(chapter: Chapter, stage: TestContext): Promise<PromiseCell> {
  const { driver } = stage.client()
  return judge(chapter.promise, await play(chapter, stage), declaredBy(driver, stage.fixture))
}

/** The answers of each chapter, in order: for the transcript that all drivers are compared with. */
export async function answersOf(fixture: Fixture): Promise<ReadonlyMap<string, readonly Answer[]>> {
  const told = new Map<string, readonly Answer[]>()
  for (const chapter of chapters)
    told.set(chapter.promise, await onOwnStage(fixture, (stage) => play(chapter, stage)))
  return told
}

async function onOwnStage<T>(fixture: Fixture, use: (stage: TestContext) => Promise<T>): Promise<T> {
  const stage = new TestContext(fixture)
  try {
    return await use(stage)
  } finally {
    await stage.close()
  }
}
