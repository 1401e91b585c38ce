/** The escape suite against containers: made by root, reached over a relay. */
import { escapeSuite } from '../escape/suite.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('root', 'relay', escapeSuite)
