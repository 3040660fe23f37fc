/** `postgres()`, strategy `session`: advisory locks of one connection for each process. */
import { postgresLab } from '../postgres-lab.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = postgresLab({
  about: 'postgres: advisory locks of one server, one connection for each process',
  strategy: 'session',
})
