/** The parameters of statements over postgres.js, which `types` of the application's instance must not change. */
import type { Value } from './client.js'

/** The type `unknown`: the server takes the one that the statement wants. */
const unknownType = 705

/** @throws TypeError when an entry in `types` of the instance would change our parameters all the same */
export function assertNoSerializer(options: object): void {
  const { serializers = {}, types = {} } = options as Readonly<
    Record<string, Readonly<Record<string, unknown>>>
  >
  if (!(unknownType in serializers)) return
  const entry = Object.keys(types).find((name) => {
    const { to, from } = types[name] as { readonly to: unknown; readonly from?: unknown }
    return [to, from].flat().includes(unknownType)
  })
  throw new TypeError(
    `postgres: the entry ${entry} in the types of this instance of postgres.js serializes the type ${unknownType} (unknown), in which the driver sends its texts; it would change the names of locks. Give the locks an instance without it`,
  )
}

/**
 * Texts, for a number passed for a text parameter would be refused; PostgreSQL parses both from text. They have a type of which postgres.js
 * knows no serializer. If they had none, it would use those of the types in the server's reply, which the application may have replaced.
 */
export function toParameters(sql: object, values: readonly Value[]): never[] {
  const { typed } = sql as { readonly typed?: (value: string | null, type: number) => unknown }
  const texts = values.map((value) => (value === null ? null : String(value)))
  return (typed === undefined ? texts : texts.map((text) => typed(text, unknownType))) as never[]
}
