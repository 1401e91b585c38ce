/** The escape suite against containers: made by an ordinary user, reached over a socket in a folder. */
import { escapeSuite } from '../escape/suite.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('user', 'socket', escapeSuite)
