/** The page's entry: starts the connection to the engine and mounts the app. */
import { mount } from 'svelte';
import App from './App.svelte';
import { scope } from './state.svelte.ts';
import './style.css';

const root = document.getElementById('app');
if (!root) throw new Error('index.html has no #app');
scope.start();
mount(App, { target: root });
