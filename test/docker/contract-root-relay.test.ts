/** Containers pass the contract of sandboxes: made by root, reached over a relay. */
import { sandboxContract } from '../contract/sandbox.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('root', 'relay', sandboxContract)
