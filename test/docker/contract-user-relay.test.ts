/** Containers pass the contract of sandboxes: made by an ordinary user, reached over a relay. */
import { sandboxContract } from '../contract/sandbox.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('user', 'relay', sandboxContract)
