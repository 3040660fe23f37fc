/** `mysql()`, strategy `row`, on MariaDB with its own client. */
import { mysqlLab } from '../mysql-lab.js'
import type { LabDriver } from '../store.js'

export const lab: LabDriver = mysqlLab({
  about: 'mysql: rows of one MariaDB server, a pool of mariadb in every process',
  flavour: 'mariadb',
  library: 'mariadb',
  strategy: 'row',
})
