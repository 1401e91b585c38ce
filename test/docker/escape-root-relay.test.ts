/** The escape suite against containers: created by root, with the relay transport. */
import { escapeSuite } from '../escape/suite.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('root', 'relay', escapeSuite)
