/** The variables in the command's environment. */

/**
 * `HOLDFAST_NAMES` and `HOLDFAST_TOKENS`, one per line, in the order of the command line; for a single lock also `HOLDFAST_NAME` and
 * `HOLDFAST_TOKEN`. Several locks have no single token: a resource compares the token of its own lock. The variables of an enclosing run
 * are removed.
 */
export function lockVariables(names: readonly string[], tokens: readonly number[]): NodeJS.ProcessEnv {
  const [name, ...others] = names
  const single = others.length === 0
  return {
    HOLDFAST_NAME: single ? name : undefined,
    HOLDFAST_TOKEN: single ? `${tokens[0]}` : undefined,
    HOLDFAST_NAMES: names.join('\n'),
    HOLDFAST_TOKENS: tokens.join('\n'),
  }
}

/** The first of `names` held by an enclosing run. */
export function findOuterHolds(env: NodeJS.ProcessEnv, names: readonly string[]): string | undefined {
  const held = [env['HOLDFAST_NAME'], ...(env['HOLDFAST_NAMES']?.split('\n') ?? [])]
  return names.find((name) => held.includes(name))
}
