// docs/reference/*.md but for its index: written from the source by `npm run api:write`, checked by `npm run check:api`.
import { cliPage } from './cli.js'
import { errorsPage } from './errors.js'
import type { Model } from './model.js'
import { optionsPage } from './options.js'
import { urlsPage } from './urls.js'
import { wrongValues } from './wrong-values.js'

/** Every page by its name. */
export async function referencePages(models: readonly Model[]): Promise<ReadonlyMap<string, string>> {
  const wrong = wrongValues()
  try {
    return new Map([
      ['options.md', await optionsPage(models, wrong)],
      ['errors.md', errorsPage(models)],
      ['urls.md', urlsPage(models)],
      ['cli.md', cliPage()],
    ])
  } finally {
    await wrong.close()
  }
}
