/** Containers pass the contract of sandboxes: made by root, reached over a socket in a folder. */
import { sandboxContract } from '../contract/sandbox.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('root', 'socket', sandboxContract)
