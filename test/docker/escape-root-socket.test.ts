/** The escape suite against containers: created by root, with the socket transport. */
import { escapeSuite } from '../escape/suite.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('root', 'socket', escapeSuite)
