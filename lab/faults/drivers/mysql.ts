/** `mysql()`, strategy `row`, on MySQL 9 with mysql2. */
import { mysqlLab } from '../mysql-lab.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = mysqlLab({
  about: 'mysql: rows of one MySQL server, a pool of mysql2 in every process',
  flavour: 'mysql',
  library: 'mysql2',
  strategy: 'row',
})
