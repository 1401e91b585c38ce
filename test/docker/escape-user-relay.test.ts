/** The escape suite against containers: created by an ordinary user, with the relay transport. */
import { escapeSuite } from '../escape/suite.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('user', 'relay', escapeSuite)
