/** The escape suite against containers: made by root, reached over a socket in a folder. */
import { escapeSuite } from '../escape/suite.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('root', 'socket', escapeSuite)
