/**
 * Environment references in a URL of a configuration: `redis://app:${REDIS_PASSWORD}@10.0.0.5`. Only the login may contain them: a
 * variable's value is data and cannot become a host or a setting.
 */
import { badInput } from './exit.js'

const reference = /^\$\{([A-Za-z_][A-Za-z0-9_]*)\}$/

/** @throws CliError for a password written in the file, and for a variable that is not set. */
export function expanded(url: string, env: NodeJS.ProcessEnv): string {
  const [, before, login = '', after] = /^([a-z][a-z0-9+.-]*:\/\/)([^@/?#]*)@(.*)$/is.exec(url) ?? []
  if ((after ?? url).includes('${'))
    throw badInput(`its URL has a reference \${…} that is not the user or password; write out what is meant`)
  if (before === undefined) return url
  const [user = '', ...rest] = login.split(':')
  const password = rest.length === 0 ? undefined : rest.join(':')
  if (password !== undefined && password !== '' && !reference.test(password)) {
    throw badInput(
      `its URL has a password in it, which everybody who reads the file learns; write \${NAME} in its place, and set NAME in the environment`,
    )
  }
  const whole = password === undefined ? [user] : [user, password]
  return `${before}${whole.map((part) => replaced(part, env)).join(':')}@${after}`
}

function replaced(part: string, env: NodeJS.ProcessEnv): string {
  const variable = reference.exec(part)?.[1]
  if (variable === undefined) {
    if (!part.includes('${')) return part
    throw badInput(
      `its URL has a user that is only partly a reference; write \${NAME} alone, or write the user out`,
    )
  }
  const value = env[variable]
  if (value === undefined || value === '')
    throw badInput(`the variable ${variable}, which its URL refers to, is not set`)
  return encodeURIComponent(value)
}
