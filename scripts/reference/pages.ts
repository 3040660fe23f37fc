// docs/reference/*.md and docs/zh/reference/*.md but for their indexes: written from the source by `npm run api:write`, checked by
// `npm run check:api`.
import { marked } from '../translated.js'
import { cliPage } from './cli.js'
import { errorsPage } from './errors.js'
import type { Model } from './model.js'
import { optionsPage } from './options.js'
import { urlsPage } from './urls.js'
import { chineseTexts, complaint, inEnglish, type Say, translation } from './words.js'
import { type WrongValues, wrongValues } from './wrong-values.js'

export interface Reference {
  /** Every page by its path below docs/. */
  readonly pages: ReadonlyMap<string, string>
  /** What is wrong with the translation. */
  readonly complaint: string | undefined
}

export async function referencePages(models: readonly Model[]): Promise<Reference> {
  const chinese = translation(chineseTexts())
  const wrong = wrongValues()
  try {
    const pages = new Map<string, string>()
    for (const [name, text] of await createPages(inEnglish, models, wrong))
      pages.set(`reference/${name}`, text)
    for (const [name, text] of await createPages(chinese.say, models, wrong))
      pages.set(`zh/reference/${name}`, marked(pages.get(`reference/${name}`) ?? '', text))
    return { pages, complaint: complaint(chinese) }
  } finally {
    await wrong.close()
  }
}

async function createPages(
  say: Say,
  models: readonly Model[],
  wrong: WrongValues,
): Promise<[name: string, text: string][]> {
  return [
    ['options.md', await optionsPage(models, wrong, say)],
    ['errors.md', errorsPage(models, say)],
    ['urls.md', urlsPage(models, say)],
    ['cli.md', cliPage(say)],
  ]
}
